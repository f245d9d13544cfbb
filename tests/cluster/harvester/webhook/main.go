// Runs validators and mutators of Harvester's webhook, as they are, and registers them with a kube-apiserver on the same host:
//
//	webhook --kubeconfig FILE --certificate FILE --key FILE --ca FILE
//
// The list is that of Harvester's pkg/webhook/server, which cannot be built here: CDI, Longhorn's engine and Rancher's settings are
// missing. So there is no webhook for PersistentVolumeClaims, StorageClasses, images, backups and restores.
package main

import (
	"fmt"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/harvester/harvester/pkg/webhook"
	"github.com/harvester/harvester/pkg/webhook/clients"
	"github.com/harvester/harvester/pkg/webhook/config"
	"github.com/harvester/harvester/pkg/webhook/indexeres"
	"github.com/harvester/harvester/pkg/webhook/resources/addon"
	"github.com/harvester/harvester/pkg/webhook/resources/bundle"
	"github.com/harvester/harvester/pkg/webhook/resources/bundledeployment"
	"github.com/harvester/harvester/pkg/webhook/resources/deployment"
	"github.com/harvester/harvester/pkg/webhook/resources/keypair"
	"github.com/harvester/harvester/pkg/webhook/resources/managedchart"
	"github.com/harvester/harvester/pkg/webhook/resources/namespace"
	"github.com/harvester/harvester/pkg/webhook/resources/networkattachmentdefinition"
	"github.com/harvester/harvester/pkg/webhook/resources/node"
	"github.com/harvester/harvester/pkg/webhook/resources/pod"
	"github.com/harvester/harvester/pkg/webhook/resources/resourcequota"
	"github.com/harvester/harvester/pkg/webhook/resources/secret"
	"github.com/harvester/harvester/pkg/webhook/resources/setting"
	"github.com/harvester/harvester/pkg/webhook/resources/supportbundle"
	"github.com/harvester/harvester/pkg/webhook/resources/templateversion"
	"github.com/harvester/harvester/pkg/webhook/resources/upgrade"
	"github.com/harvester/harvester/pkg/webhook/resources/version"
	"github.com/harvester/harvester/pkg/webhook/resources/virtualmachine"
	"github.com/harvester/harvester/pkg/webhook/resources/virtualmachineinstance"
	"github.com/harvester/harvester/pkg/webhook/types"
	admission "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"windrow.dev/tests/cluster/harvester/serve"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	server, err := serve.Parse("webhook")
	if err != nil {
		return err
	}
	ctx, stop := serve.Context()
	defer stop()
	// Without kubeovn's kinds, as an installation without that Addon.
	all, err := clients.New(ctx, server.Rest, 1, false)
	if err != nil {
		return err
	}
	indexeres.RegisterIndexers(all)
	uncached, err := client.New(server.Rest, client.Options{})
	if err != nil {
		return err
	}
	validating := serve.NewHook(webhook.ValidatingWebhookName, "validator.harvesterhci.io", admission.Fail)
	mutating := serve.NewHook(webhook.MutatingWebhookName, "mutator.harvesterhci.io", admission.Ignore)
	for _, validator := range validators(all, uncached) {
		add(validating, types.AdmissionTypeValidation, types.NewValidatorAdapter(validator))
	}
	for _, mutator := range mutators(all) {
		add(mutating, types.AdmissionTypeMutation, mutator)
	}
	// It waits until all kinds are served and listed.
	if err := all.Start(ctx); err != nil {
		return err
	}
	return server.Run(ctx, validating, mutating)
}

// add is what Harvester's pkg/webhook/server does with each of them.
func add(hook *serve.Hook, kind string, admitter types.Admitter) {
	options := &config.Options{
		Namespace:                   "harvester-system",
		HarvesterControllerUsername: "system:serviceaccount:harvester-system:harvester",
		GarbageCollectionUsername:   "system:serviceaccount:kube-system:generic-garbage-collector",
	}
	of := admitter.Resource()
	name := reflect.Indirect(reflect.ValueOf(of.ObjectType)).Type().Name()
	hook.Router.Kind(name).Group(of.APIGroup).Type(of.ObjectType).Handle(types.NewAdmissionHandler(admitter, kind, options))
	hook.Handles(of.APIGroup, of.APIVersion, of.Names, of.Scope, of.OperationTypes)
}

func validators(all *clients.Clients, uncached client.Client) []types.Validator {
	harvester, machines := all.HarvesterFactory.Harvesterhci().V1beta1(), all.KubevirtFactory.Kubevirt().V1()
	longhorn, network := all.LonghornFactory.Longhorn().V1beta2(), all.HarvesterNetworkFactory.Network().V1beta1()
	rancher, logging := all.RancherManagementFactory.Management().V3(), all.LoggingFactory.Logging().V1beta1()
	provisioning, networks := all.ClusterFactory.Cluster().V1beta1(), all.CNIFactory.K8s().V1().NetworkAttachmentDefinition().Cache()
	quotas, classes := all.HarvesterCoreFactory.Core().V1().ResourceQuota().Cache(), all.StorageFactory.Storage().V1().StorageClass().Cache()
	settings, nodes := harvester.Setting().Cache(), all.Core.Node().Cache()
	return []types.Validator{
		node.NewValidator(nodes, all.Batch.Job().Cache(), machines.VirtualMachineInstance().Cache()),
		keypair.NewValidator(harvester.KeyPair().Cache()),
		virtualmachine.NewValidator(
			all.Core.Namespace().Cache(), all.Core.Pod().Cache(), all.Core.PersistentVolumeClaim().Cache(), quotas,
			harvester.VirtualMachineBackup().Cache(), machines.VirtualMachineInstanceMigration().Cache(), machines.VirtualMachine().Cache(),
			machines.VirtualMachineInstance().Cache(), networks, machines.KubeVirt().Cache(), classes, settings),
		upgrade.NewValidator(
			harvester.Upgrade().Cache(), harvester.Addon().Cache(), nodes, longhorn.Volume().Cache(), provisioning.Cluster().Cache(),
			provisioning.Machine().Cache(), rancher.ManagedChart().Cache(), harvester.Version().Cache(), harvester.VirtualMachineBackup().Cache(),
			harvester.ScheduleVMBackup().Cache(), settings, machines.VirtualMachine().Cache(), machines.VirtualMachineInstance().Cache(),
			all.Core.Endpoints().Cache(), kubelets()),
		setting.NewValidator(
			settings, nodes, harvester.VirtualMachineBackup().Cache(), all.SnapshotFactory.Snapshot().V1().VolumeSnapshotClass().Cache(),
			harvester.VirtualMachineRestore().Cache(), machines.VirtualMachine().Cache(), machines.VirtualMachineInstance().Cache(),
			machines.VirtualMachineInstanceMigration().Cache(), rancher.Feature().Cache(), longhorn.Volume().Cache(),
			all.CoreFactory.Core().V1().PersistentVolumeClaim().Cache(), network.ClusterNetwork().Cache(), network.VlanConfig().Cache(),
			network.VlanStatus().Cache(), longhorn.Node().Cache(), all.Core.Secret().Cache()),
		templateversion.NewValidator(
			harvester.VirtualMachineTemplate().Cache(), harvester.VirtualMachineTemplateVersion().Cache(), harvester.KeyPair().Cache()),
		managedchart.NewValidator(),
		bundle.NewValidator(),
		bundledeployment.NewValidator(all.FleetFactory.Fleet().V1alpha1().Cluster().Cache()),
		namespace.NewValidator(quotas, settings),
		addon.NewValidator(
			harvester.Addon().Cache(), logging.Flow().Cache(), logging.Output().Cache(), logging.ClusterFlow().Cache(), logging.ClusterOutput().Cache(),
			harvester.UpgradeLog().Cache(), nodes, machines.VirtualMachine().Cache(), nil, uncached),
		version.NewValidator(),
		resourcequota.NewValidator(),
		secret.NewValidator(classes),
		supportbundle.NewValidator(all.Core.Namespace().Cache()),
		deployment.NewValidator(harvester.Upgrade().Cache(), all.AppsFactory.Apps().V1().Deployment().Cache()),
		networkattachmentdefinition.NewValidator(settings),
	}
}

// kubelets is the client with which the upgrade's preflight asks them for their disks. There are none in a test.
func kubelets() *http.Client {
	return &http.Client{Timeout: 20 * time.Second}
}

func mutators(all *clients.Clients) []types.Mutator {
	harvester, machines := all.HarvesterFactory.Harvesterhci().V1beta1(), all.KubevirtFactory.Kubevirt().V1()
	settings := harvester.Setting().Cache()
	return []types.Mutator{
		pod.NewMutator(settings),
		templateversion.NewMutator(),
		upgrade.NewMutator(all.CoreFactory.Core().V1().Node().Cache(), settings),
		virtualmachine.NewMutator(settings, all.CNIFactory.K8s().V1().NetworkAttachmentDefinition().Cache(), machines.KubeVirt().Cache(), nil),
		virtualmachineinstance.NewMutator(machines.VirtualMachine().Cache()),
	}
}
