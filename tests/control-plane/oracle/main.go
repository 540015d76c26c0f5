// A program that answers what structured-merge-diff makes of schemas, objects
// and sets of paths, in the version that this module selects. Tests ask it and
// compare its answers with those of fieldkeeper.
//
// It reads JSON requests from its standard input and writes one JSON answer for
// each to its standard output. Before the first it writes the version of
// structured-merge-diff.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request asks any number of questions; the schema belongs to the pairs.
type request struct {
	// Schema is an openAPIV3Schema; without one the types are deduced from the objects.
	Schema json.RawMessage `json:"schema"`
	// Kind is a built-in kind to take instead.
	Kind *builtin `json:"kind"`
	// Preserve is the old spec.preserveUnknownFields of the CRD.
	Preserve bool `json:"preserve"`
	// Pairs are old and new objects. An object that is null is absent.
	Pairs [][2]json.RawMessage `json:"pairs"`
	// Texts are FieldsV1 to read and to write again.
	Texts []string `json:"texts"`
	// Algebra are pairs of FieldsV1 to combine.
	Algebra [][2]string `json:"algebra"`
}

// builtin names a kind of Kubernetes itself. Its document is answered where no
// pairs are given.
type builtin struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

type answer struct {
	// SchemaError says why the API server refuses the schema.
	SchemaError string          `json:"schemaError,omitempty"`
	Document    json.RawMessage `json:"document,omitempty"`
	Pairs       []comparison    `json:"pairs,omitempty"`
	Texts       []canonical     `json:"texts,omitempty"`
	Algebra     []combination   `json:"algebra,omitempty"`
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	buffer := bufio.NewWriter(os.Stdout)
	out := json.NewEncoder(buffer)
	out.SetEscapeHTML(false)
	err := serve(in, func(v any) error {
		if err := out.Encode(v); err != nil {
			return err
		}
		return buffer.Flush()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func serve(in *json.Decoder, write func(any) error) error {
	if err := write(map[string]string{"structuredMergeDiff": selected()}); err != nil {
		return err
	}
	for {
		var asked request
		if err := in.Decode(&asked); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := write(reply(&asked)); err != nil {
			return err
		}
	}
}

func reply(asked *request) answer {
	var said answer
	if asked.Kind != nil || len(asked.Pairs) > 0 {
		kind, err := asked.kind()
		if err != nil {
			return answer{SchemaError: err.Error()}
		}
		if len(asked.Pairs) == 0 {
			said.Document = kind.document
		}
		for _, pair := range asked.Pairs {
			said.Pairs = append(said.Pairs, kind.compare(pair[0], pair[1]))
		}
	}
	for _, text := range asked.Texts {
		said.Texts = append(said.Texts, rewrite(text))
	}
	for _, pair := range asked.Algebra {
		said.Algebra = append(said.Algebra, combine(pair[0], pair[1]))
	}
	return said
}

func (asked *request) kind() (*kind, error) {
	if asked.Kind != nil {
		return newBuiltin(schema.GroupVersionKind(*asked.Kind))
	}
	return newKind(asked.Schema, asked.Preserve)
}

func selected() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if strings.HasPrefix(module.Path, "sigs.k8s.io/structured-merge-diff/") {
			return module.Version
		}
	}
	return ""
}
