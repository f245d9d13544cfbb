// Command kinds-rancher writes the CustomResourceDefinitions of some of Rancher's kinds into a folder: one file
// PLURAL.GROUP.yaml each. Their schemas come out of Rancher's Go types by wrangler, as Rancher's own do.
//
//	kinds-rancher FOLDER
package main

import (
	"log"
	"os"
	"path/filepath"

	management "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	rke "github.com/rancher/rancher/pkg/apis/rke.cattle.io/v1"
	"github.com/rancher/wrangler/v3/pkg/crd"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Rancher serves these two without a path of their own for the status (its `pkg/crds`, v2.9 to v2.13).
func clusterWide(kind string, object any) crd.CRD {
	return crd.CRD{
		GVK:          schema.GroupVersionKind{Group: "management.cattle.io", Version: "v3", Kind: kind},
		NonNamespace: true,
		SchemaObject: object,
	}
}

func namespaced(group, version, kind string, object any) crd.CRD {
	return crd.CRD{
		GVK:          schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
		Status:       true,
		SchemaObject: object,
	}
}

var kinds = []crd.CRD{
	clusterWide("Feature", management.Feature{}),
	clusterWide("NodeDriver", management.NodeDriver{}),
	namespaced("management.cattle.io", "v3", "ManagedChart", management.ManagedChart{}),
	namespaced("provisioning.cattle.io", "v1", "Cluster", provisioning.Cluster{}),
	namespaced("rke.cattle.io", "v1", "RKEControlPlane", rke.RKEControlPlane{}),
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: kinds-rancher FOLDER")
	}
	for _, one := range kinds {
		if err := write(one, os.Args[1]); err != nil {
			log.Fatalf("kinds-rancher: %s: %v", one.GVK.Kind, err)
		}
	}
}

func write(one crd.CRD, folder string) error {
	definition, err := one.ToCustomResourceDefinition()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(definition)
	if err != nil {
		return err
	}
	name := definition.(interface{ GetName() string }).GetName()
	return os.WriteFile(filepath.Join(folder, name+".yaml"), text, 0o644)
}
