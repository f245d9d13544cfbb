// Generates the clients of Rancher's kinds that Harvester imports, below ./pkg: `go run ./generate` in the module's directory.
// Rancher's own module, which has them, is not in the checksum database.
package main

import (
	"os"

	fleet "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	catalog "github.com/rancher/rancher/pkg/apis/catalog.cattle.io/v1"
	management "github.com/rancher/rancher/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/rancher/rancher/pkg/apis/provisioning.cattle.io/v1"
	rke "github.com/rancher/rancher/pkg/apis/rke.cattle.io/v1"
	controllergen "github.com/rancher/wrangler/v3/pkg/controller-gen"
	"github.com/rancher/wrangler/v3/pkg/controller-gen/args"
)

func main() {
	controllergen.Run(args.Options{
		OutputPackage: "github.com/rancher/rancher/pkg/generated",
		Boilerplate:   os.DevNull,
		Groups: map[string]args.Group{
			"catalog.cattle.io":      {Types: []any{catalog.App{}, catalog.ClusterRepo{}}},
			"fleet.cattle.io":        {Types: []any{fleet.Cluster{}}},
			"provisioning.cattle.io": {Types: []any{provisioning.Cluster{}}},
			"rke.cattle.io":          {Types: []any{rke.RKEControlPlane{}}},
			"management.cattle.io": {Types: []any{
				management.Feature{}, management.ManagedChart{}, management.Setting{}, management.Token{}, management.User{},
			}},
		},
	})
}
