// Package typed has other people's kinds that are published as Go types alone: the definitions are made of them by controller-gen, as their
// own projects do (tests/cluster/build).
package typed

import (
	_ "github.com/rancher/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	_ "github.com/rancher/system-upgrade-controller/pkg/apis/upgrade.cattle.io/v1"
)
