// Command cloud-controller-manager is the controller of Google's cloud, assembled here from
// published modules: Kubernetes' framework for such controllers, and Google's provider.
// Google's own program is not published as a module. The controller of pod ranges is in ipam.go.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	_ "k8s.io/cloud-provider-gcp/providers/gce" // registers itself
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers its metrics
)

func main() {
	o, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	controllers := app.DefaultInitFuncConstructors
	controllers[ipamName] = app.ControllerInitFuncConstructor{InitContext: app.ControllerInitContext{ClientName: "node-controller"}, Constructor: startIPAM}
	aliases := names.CCMControllerAliases()
	aliases["nodeipam"] = ipamName
	os.Exit(cli.Run(app.NewCloudControllerManagerCommand(o, open, controllers, aliases, cliflag.NamedFlagSets{}, wait.NeverStop)))
}

// open connects to the cloud with the given configuration.
func open(c *config.CompletedConfig) cloudprovider.Interface {
	p := c.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(p.Name, p.CloudConfigFile)
	if err == nil && cloud == nil {
		err = fmt.Errorf("--cloud-provider is %q, not gce", p.Name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: connect to the cloud:", err)
		os.Exit(1)
	}
	return cloud
}
