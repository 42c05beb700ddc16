package shell

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Variable is a variable of the environment that kops reads.
type Variable struct {
	Name, Meaning, Default string
}

// Environment lists the variables that kops reads, as help and the documentation show them.
// Those of platforms and stores that all their tools read, such as AWS_PROFILE, are theirs.
func Environment() []Variable {
	return []Variable{
		{"KOPS_STATE_STORE", "URL of the state store; --state overrides it", "that of the configuration file, else ~/.kops/clusters where it exists"},
		{"KOPS_CLUSTER_NAME", "name of the cluster; --name and arguments override it", "where a command destroys nothing, the cluster of kubectl's context"},
		{"KOPS_FEATURE_FLAGS", "switches, divided by commas: X or +X is on, -X is off", "TerraformManagedFiles and ImageDigest are on"},
		{"KOPS_RUN_OBSOLETE_VERSION", "set: versions older than the channel requires are allowed", "refused"},
		{"KOPS_RUN_TOO_NEW_VERSION", "set: a Kubernetes newer than this kops knows is allowed", "refused"},
		{"KOPS_RSA_PRIVATE_KEY_SIZE", "size of new RSA keys in bits, 2048 or more", "2048"},
		{"KOPS_ARCH", "amd64 or arm64: the only architecture of machines, for which files are looked up", "both"},
		{"KOPS_PROGRAMS", "file of the archive of kops' own programs for machines", "beside kops, else in its cache"},
		{"KOPS_BASE_URL", "URL of a copy of that archive's contents, which machines read", "the cluster's own store"},
		{"KOPS_FILE_HASHES", "SHA-256 of files that are not their publishers': SHA256@URL, divided by commas", "as published"},
		{"KOPS_BUNDLE", "folder of the bundle of files and images", "bundle in the user's cache of kops"},
		{"KOPS_STATE_S3_ACL", "canned ACL of every object in S3", "that of the bucket"},
		{"KOPS_STATE_S3_WITHOUT_LOCKS", "true: a server of S3 without conditional writes is taken; never run two commands at once then", "refused"},
		{"KOPS_OS_TLS_INSECURE_SKIP_VERIFY", "true: any certificate of OpenStack's servers is taken", "verified"},
		{"KOPS_AWS_ROLE_ARN", "role of AWS that is assumed", "the identity of the credentials"},
		{"SKIP_REGION_CHECK", "set: a region of AWS that this kops does not know is taken", "refused"},
		{"KOPS_GCE_ENDPOINT", "URL of another server that plays Google's APIs", "Google's"},
		{"KOPS_LOCAL_ROOT", "folder of machines that are containers of this host", "/var/lib/kops-local"},
		{"KOPS_SSH_KEY", "files of SSH keys, divided as in PATH, for machines of the user", "the agent's, and those of ~/.ssh"},
		{"KOPS_TOOLBOX_DUMP_K8S_RESOURCES", "true: toolbox dump collects objects of Kubernetes without --k8s-resources", "false"},
		{"S3_ENDPOINT", "URL of another server of S3", "Amazon's"},
		{"S3_REGION", "region of the buckets", "asked"},
		{"KUBECONFIG", "files of kubectl, divided as in PATH; the first is written", "~/.kube/config"},
		{"KUBE_EDITOR, EDITOR", "editor of kops edit", "vi"},
		{"NO_COLOR", "set: nothing is coloured", "coloured at a terminal"},
	}
}

// configurationFile says what is read besides the environment.
const configurationFile = `The configuration file is ~/.kops.yaml or else ~/.kops/config, or the one that --config names.
It is YAML, and may hold one variable, which the environment and --state override:

    KOPS_STATE_STORE: s3://my-state-store
`

// PrintEnvironment explains the variables of the environment and the configuration file.
func (a *App) PrintEnvironment() error {
	a.Printf("kops reads these variables of the environment. Flags override them.\n\n")
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	for _, v := range Environment() {
		if _, err := fmt.Fprintf(w, "%s\t%s\n\t  default: %s\n", v.Name, v.Meaning, v.Default); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	a.Printf("\n%s", configurationFile)
	return nil
}

// EnvironmentPage is the page of the documentation that says the same.
func EnvironmentPage() string {
	var b strings.Builder
	b.WriteString(`# Environment and configuration file

Flags override variables of the environment, and these override the configuration file. kops help environment shows this list.

| variable | means | default |
|---|---|---|
`)
	for _, v := range Environment() {
		name := strings.ReplaceAll(v.Name, ", ", "`, `")
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, v.Meaning, v.Default)
	}
	b.WriteString(`
Besides these, each platform and store reads what its own tools read: ` + "`AWS_*`, `GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_*`, `OS_*`" + ` and so on, see [state stores](state-stores.md).

## The configuration file

` + configurationFile)
	return b.String()
}
