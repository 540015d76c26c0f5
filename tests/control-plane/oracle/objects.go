package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const (
	group   = "example.dev"
	version = "v1"
	kindOf  = "Sample"
)

// kind turns objects of one CRD into typed values.
type kind struct {
	converter managedfields.TypeConverter
}

// comparison is the difference of two objects and what each of them holds.
type comparison struct {
	Added    string `json:"added"`
	Removed  string `json:"removed"`
	Modified string `json:"modified"`
	// OldSet and NewSet are empty where there is no such object.
	OldSet string `json:"oldSet,omitempty"`
	NewSet string `json:"newSet,omitempty"`
	Error  string `json:"error,omitempty"`
}

// newKind goes the way of the API server's handler for custom resources: a CRD
// that passes validation, its OpenAPI v3 models, a type converter made of them.
func newKind(schema json.RawMessage, preserve bool) (*kind, error) {
	if len(schema) == 0 || string(schema) == "null" {
		return &kind{managedfields.NewDeducedTypeConverter()}, nil
	}
	crd, err := newCRD(schema)
	if err != nil {
		return nil, err
	}
	// Such CRDs are old: the server keeps them, but accepts no new ones.
	crd.Spec.PreserveUnknownFields = preserve
	spec, err := builder.BuildOpenAPIV3(crd, version, builder.Options{})
	if err != nil {
		return nil, err
	}
	merged, err := builder.MergeSpecsV3(spec)
	if err != nil {
		return nil, err
	}
	converter, err := managedfields.NewTypeConverter(merged.Components.Schemas, preserve)
	if err != nil {
		return nil, err
	}
	return &kind{converter}, nil
}

// newCRD is an error where the API server would not accept the CRD.
func newCRD(schema json.RawMessage) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "samples." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "samples", Kind: kindOf},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{},
			}},
		},
	}
	if err := utiljson.Unmarshal(schema, &crd.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	crd.Status.StoredVersions = []string{version}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil); err != nil {
		return nil, err
	}
	if errs := validation.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return crd, nil
}

func (k *kind) compare(old, new json.RawMessage) comparison {
	said, err := k.tryCompare(old, new)
	if err != nil {
		return comparison{Error: err.Error()}
	}
	return said
}

func (k *kind) tryCompare(old, new json.RawMessage) (comparison, error) {
	var said comparison
	before, oldSet, err := k.typed(old)
	if err != nil {
		return said, fmt.Errorf("old: %w", err)
	}
	after, newSet, err := k.typed(new)
	if err != nil {
		return said, fmt.Errorf("new: %w", err)
	}
	changed, err := before.Compare(after)
	if err != nil {
		return said, fmt.Errorf("compare: %w", err)
	}
	return comparison{
		Added:    write(changed.Added),
		Removed:  write(changed.Removed),
		Modified: write(changed.Modified),
		OldSet:   oldSet,
		NewSet:   newSet,
	}, nil
}

// typed reads one object as the API server does. Where there is none, the server
// compares with an empty one of the kind.
func (k *kind) typed(raw json.RawMessage) (*typed.TypedValue, string, error) {
	absent := len(raw) == 0 || string(raw) == "null"
	object := map[string]any{}
	if !absent {
		if err := utiljson.Unmarshal(raw, &object); err != nil {
			return nil, "", err
		}
	}
	object["apiVersion"], object["kind"] = group+"/"+version, kindOf
	value, err := k.converter.ObjectToTyped(&unstructured.Unstructured{Object: object}, typed.AllowDuplicates)
	if err != nil || absent {
		return value, "", err
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return nil, "", err
	}
	return value, write(set), nil
}
