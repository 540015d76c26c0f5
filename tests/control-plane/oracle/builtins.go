package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/kube-openapi/pkg/builder3"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/generated/openapi"

	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
)

// builtins remembers the kinds: their models take longer than an answer should.
var builtins = map[schema.GroupVersionKind]*kind{}

// newBuiltin goes the way of the generic API server: the OpenAPI v3 definitions
// that a kind needs, a type converter made of them.
func newBuiltin(of schema.GroupVersionKind) (*kind, error) {
	if known := builtins[of]; known != nil {
		return known, nil
	}
	sample, err := legacyscheme.Scheme.New(of)
	if err != nil {
		return nil, err
	}
	config := genericapiserver.DefaultOpenAPIV3Config(
		utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(openapi.GetOpenAPIDefinitions),
		openapinamer.NewDefinitionNamer(legacyscheme.Scheme),
	)
	schemas, err := builder3.BuildOpenAPIDefinitionsForResources(config, openapiutil.GetCanonicalTypeName(sample))
	if err != nil {
		return nil, err
	}
	converter, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}})
	if err != nil {
		return nil, err
	}
	made := &kind{of: of, converter: converter, document: document}
	builtins[of] = made
	return made, nil
}
