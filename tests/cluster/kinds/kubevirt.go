package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	kubevirt    = "kubevirt.io/kubevirt@v1.7.0"
	kubevirtSum = "h1:Emz0v1IGKwTvWvD+d0mZmfZFvVCxreSAPAUQnp0ZhZI="
	components  = "pkg/virt-operator/resource/generate/components"
)

// KubeVirt makes its definitions in code. These have its names, scope and subresources as crds.go beside the schemas
// sets them; version v1 alone, without printer columns.
var kubevirtKinds = []struct {
	kind   string
	status bool
}{
	{"VirtualMachine", true},
	// virt-controller writes the whole object.
	{"VirtualMachineInstance", false},
	{"VirtualMachineInstanceMigration", true},
}

const kubevirtDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]ss.kubevirt.io
spec:
  group: kubevirt.io
  scope: Namespaced
  names: {kind: %[2]s, plural: %[1]ss, singular: %[1]s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {%[3]s}
    schema:
%[4]s`

func writeKubeVirt(module, folder string) error {
	schemas, err := kubevirtSchemas(filepath.Join(module, components, "validations_generated.go"))
	if err != nil {
		return err
	}
	for _, one := range kubevirtKinds {
		singular := strings.ToLower(one.kind)
		schema, ok := schemas[singular]
		if !ok {
			return fmt.Errorf("%s has no schema of %s", kubevirt, one.kind)
		}
		subresources := ""
		if one.status {
			subresources = "status: {}"
		}
		indented := "      " + strings.ReplaceAll(schema, "\n", "\n      ")
		text := fmt.Sprintf(kubevirtDefinition, singular, one.kind, subresources, indented)
		if err := os.WriteFile(filepath.Join(folder, singular+"s.kubevirt.io.yaml"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// kubevirtSchemas reads the one map of a Go file, from the singular of a kind to the YAML of its schema.
func kubevirtSchemas(path string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	schemas := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		pair, ok := node.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isKey := pair.Key.(*ast.BasicLit)
		value, isValue := pair.Value.(*ast.BasicLit)
		if isKey && isValue {
			k, kErr := strconv.Unquote(key.Value)
			v, vErr := strconv.Unquote(value.Value)
			if kErr == nil && vErr == nil {
				schemas[k] = v
			}
		}
		return false
	})
	return schemas, nil
}
