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
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// sample is the kind of the CRD that a schema is put into.
var sample = schema.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Sample"}

// kind turns objects of one kind into typed values.
type kind struct {
	of        schema.GroupVersionKind
	converter managedfields.TypeConverter
	// document is the OpenAPI document of a built-in kind.
	document json.RawMessage
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
func newKind(crdSchema json.RawMessage, preserve bool) (*kind, error) {
	if len(crdSchema) == 0 || string(crdSchema) == "null" {
		return &kind{of: sample, converter: managedfields.NewDeducedTypeConverter()}, nil
	}
	crd, err := newCRD(crdSchema)
	if err != nil {
		return nil, err
	}
	// Such CRDs are old: the server keeps them, but accepts no new ones.
	crd.Spec.PreserveUnknownFields = preserve
	spec, err := builder.BuildOpenAPIV3(crd, sample.Version, builder.Options{})
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
	return &kind{of: sample, converter: converter}, nil
}

// newCRD is an error where the API server would not accept the CRD.
func newCRD(crdSchema json.RawMessage) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "samples." + sample.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: sample.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "samples", Kind: sample.Kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: sample.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{},
			}},
		},
	}
	if err := utiljson.Unmarshal(crdSchema, &crd.Spec.Versions[0].Schema.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	crd.Status.StoredVersions = []string{sample.Version}
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
	object["apiVersion"], object["kind"] = k.of.ToAPIVersionAndKind()
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
