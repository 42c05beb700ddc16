// Package node is OpenStack on its machines: a control plane reads the cluster's store with the login
// in its configuration of the cloud.
//
// It must not know what is in a store. It links no SDK.
package node

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"path/filepath"

	"kops.local/kops/internal/platform/onmachine"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/store/swift/oschain"
	"kops.local/kops/internal/store/web"
)

// cloudConfig is the file with the login, below the machine's root, in the format of OpenStack's
// controllers: the section global has auth-url, region, and username and password, or
// application-credential-id and -secret. Its secrets are never in user data, which every process of a
// machine can read, so kops does not write them: the machine's image, or who creates the machine, does.
const cloudConfig = "/etc/kubernetes/cloud.config"

// Platform returns OpenStack.
func Platform() onmachine.Platform {
	return onmachine.Platform{Name: "openstack", Environment: variables(), Backends: backends}
}

// variables lists the variables of a login that are not secret.
func variables() []string {
	return []string{"OS_AUTH_URL", "OS_DOMAIN_ID", "OS_DOMAIN_NAME", "OS_PROJECT_DOMAIN_ID", "OS_PROJECT_DOMAIN_NAME", "OS_PROJECT_ID", "OS_PROJECT_NAME", "OS_REGION_NAME", "OS_TENANT_ID", "OS_TENANT_NAME",
		"KOPS_OS_TLS_INSECURE_SKIP_VERIFY"}
}

func backends(w onmachine.World, client *http.Client) store.Backends {
	if client == nil {
		client = web.NewClient()
	}
	own := oschain.Client(w.Env, client)
	return store.Backends{swift.Backend(swift.Config{HTTP: own, Login: func(ctx context.Context) (swift.Session, error) {
		return oschain.Login(login(w), own)(ctx)
	}})}
}

// login returns the variables of a login: those of the environment, and others of the file, which is
// read now.
func login(w onmachine.World) func(string) string {
	text, err := os.ReadFile(filepath.Join(w.Root, cloudConfig))
	if err != nil { // the environment may have all of them, and otherwise the login fails
		text = nil
	}
	file := oschain.Variables(string(text))
	return func(name string) string { return cmp.Or(w.Env(name), file(name)) }
}
