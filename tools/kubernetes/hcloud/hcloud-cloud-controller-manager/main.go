// Command hcloud-cloud-controller-manager is a controller of Hetzner's cloud, assembled here from
// published modules: Kubernetes' framework for such controllers, and Hetzner's client. Hetzner's own
// program is not published as a module. This one knows nodes: their addresses, types and places, and
// whether their servers exist. It creates neither load balancers nor routes.
package main

import (
	"fmt"
	"os"

	"github.com/hetznercloud/hcloud-go/v2/hcloud"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
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
	os.Exit(cli.Run(app.NewCloudControllerManagerCommand(o, open, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)))
}

// open connects to the project of the token in the environment.
func open(*config.CompletedConfig) cloudprovider.Interface {
	token := os.Getenv("HCLOUD_TOKEN")
	if len(token) != 64 { // as Hetzner's own program demands
		fmt.Fprintln(os.Stderr, "error: HCLOUD_TOKEN must have 64 characters")
		os.Exit(1)
	}
	o := []hcloud.ClientOption{hcloud.WithToken(token), hcloud.WithApplication("hcloud-cloud-controller", "assembled")}
	if at := os.Getenv("HCLOUD_ENDPOINT"); at != "" {
		o = append(o, hcloud.WithEndpoint(at))
	}
	return &cloud{api: hcloud.NewClient(o...), network: os.Getenv("HCLOUD_NETWORK")}
}
