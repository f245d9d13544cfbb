// Runs the webhook of Harvester's network-controller, with its own validators and mutators, and registers it with a kube-apiserver on
// the same host:
//
//	networks --kubeconfig FILE --certificate FILE --key FILE --ca FILE
//
// The list is that of its cmd/webhook, without kubeovn, as an installation without that Addon. That program registers a Service, and
// 15 seconds after its start.
package main

import (
	"fmt"
	"os"

	cni "github.com/harvester/harvester-network-controller/pkg/generated/controllers/k8s.cni.cncf.io"
	kubevirt "github.com/harvester/harvester-network-controller/pkg/generated/controllers/kubevirt.io"
	network "github.com/harvester/harvester-network-controller/pkg/generated/controllers/network.harvesterhci.io"
	"github.com/harvester/harvester-network-controller/pkg/utils"
	"github.com/harvester/harvester-network-controller/pkg/webhook/clusternetwork"
	"github.com/harvester/harvester-network-controller/pkg/webhook/nad"
	"github.com/harvester/harvester-network-controller/pkg/webhook/vlanconfig"
	"github.com/harvester/webhook/pkg/config"
	"github.com/harvester/webhook/pkg/server/admission"
	"github.com/rancher/wrangler/v3/pkg/generated/controllers/core"
	"github.com/rancher/wrangler/v3/pkg/start"
	registration "k8s.io/api/admissionregistration/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"windrow.dev/tests/cluster/harvester/serve"
)

// The names that it registers.
const name = "harvester-network-webhook"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	server, err := serve.Parse("networks")
	if err != nil {
		return err
	}
	ctx, stop := serve.Context()
	defer stop()
	machines, definitions := kubevirt.NewFactoryFromConfigOrDie(server.Rest), cni.NewFactoryFromConfigOrDie(server.Rest)
	networks, nodes := network.NewFactoryFromConfigOrDie(server.Rest), core.NewFactoryFromConfigOrDie(server.Rest)
	nads := definitions.K8s().V1().NetworkAttachmentDefinition().Cache()
	vms, vmis := machines.Kubevirt().V1().VirtualMachine().Cache(), machines.Kubevirt().V1().VirtualMachineInstance().Cache()
	all := networks.Network().V1beta1()
	clusterNetworks, configs, statuses := all.ClusterNetwork().Cache(), all.VlanConfig().Cache(), all.VlanStatus().Cache()
	node := nodes.Core().V1().Node().Cache()
	vms.AddIndexer(utils.VMByNetworkIndex, func(vm *kubevirtv1.VirtualMachine) ([]string, error) {
		return names(vm.Spec.Template.Spec.Networks), nil
	})
	vmis.AddIndexer(utils.VMByNetworkIndex, func(vmi *kubevirtv1.VirtualMachineInstance) ([]string, error) {
		return names(vmi.Spec.Networks), nil
	})
	// It waits until all kinds are served and listed.
	if err := start.All(ctx, 1, machines, definitions, networks, nodes); err != nil {
		return err
	}

	validating := serve.NewHook(name, "validator.harvester-system."+name, registration.Fail)
	mutating := serve.NewHook(name, "mutator.harvester-system."+name, registration.Ignore)
	for _, validator := range []admission.Validator{
		clusternetwork.NewCnValidator(nads, vmis, configs),
		nad.NewNadValidator(vms, vmis, clusterNetworks, configs, nil, false),
		vlanconfig.NewVlanConfigValidator(nads, configs, statuses, vmis, clusterNetworks),
	} {
		add(validating, admission.AdmissionTypeValidation, admission.Validator2Admitter(validator))
	}
	for _, mutator := range []admission.Mutator{
		nad.NewNadMutator(clusterNetworks, configs),
		vlanconfig.NewVlanConfigMutator(node),
	} {
		add(mutating, admission.AdmissionTypeMutation, mutator)
	}
	return server.Run(ctx, validating, mutating)
}

// add is what harvester/webhook's pkg/server does with each of them.
func add(hook *serve.Hook, kind admission.AdmissionType, admitter admission.Admitter) {
	options := &config.Options{
		Namespace:                 "harvester-system",
		ControllerUsername:        "system:serviceaccount:harvester-system:harvester-network-controller",
		GarbageCollectionUsername: "system:serviceaccount:kube-system:generic-garbage-collector",
	}
	admission.NewHandler(admitter, kind, options).AddToWebhookRouter(hook.Router)
	of := admitter.Resource()
	hook.Handles(of.APIGroup, of.APIVersion, of.Names, of.Scope, of.OperationTypes)
}

func names(networks []kubevirtv1.Network) []string {
	var found []string
	for _, network := range networks {
		if network.Multus != nil {
			found = append(found, network.Multus.NetworkName)
		}
	}
	return found
}
