package main

import (
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// canonical is a FieldsV1 as structured-merge-diff writes it.
type canonical struct {
	FieldsV1 string `json:"fieldsV1"`
	Leaves   string `json:"leaves"`
	Error    string `json:"error,omitempty"`
}

// combination is what two sets make together.
type combination struct {
	Union               string `json:"union"`
	Intersection        string `json:"intersection"`
	Difference          string `json:"difference"`
	RecursiveDifference string `json:"recursiveDifference"`
	Error               string `json:"error,omitempty"`
}

func rewrite(text string) canonical {
	set, err := read(text)
	if err != nil {
		return canonical{Error: err.Error()}
	}
	return canonical{FieldsV1: write(set), Leaves: write(set.Leaves())}
}

func combine(left, right string) combination {
	a, err := read(left)
	if err != nil {
		return combination{Error: err.Error()}
	}
	b, err := read(right)
	if err != nil {
		return combination{Error: err.Error()}
	}
	return combination{
		Union:               write(a.Union(b)),
		Intersection:        write(a.Intersection(b)),
		Difference:          write(a.Difference(b)),
		RecursiveDifference: write(a.RecursiveDifference(b)),
	}
}

func read(text string) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if err := set.FromJSON(strings.NewReader(text)); err != nil {
		return nil, err
	}
	return set, nil
}

// write cannot fail for a set that was read or compared.
func write(set *fieldpath.Set) string {
	text, err := set.ToJSON()
	if err != nil {
		panic(err)
	}
	return string(text)
}
