package model

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/platform/aws/kinds"
	"kops.local/kops/internal/test/modeltest"
)

// permissionsPage is the page that lists the grants that are narrower than kOps', and the
// unrestricted grants.
const permissionsPage = "../../../../docs/aws-permissions.md"

// iamStatement is a statement as IAM reads it.
type iamStatement struct {
	Action, Resource any
	Condition        map[string]map[string]any
	Principal        any
}

func items(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var list []string
		for _, i := range v {
			list = append(list, i.(string))
		}
		return list
	}
	return nil
}

// changes reports whether an action is not read-only.
func changes(action string) bool {
	_, verb, _ := strings.Cut(action, ":")
	for _, reading := range []string{"Describe", "Get", "List", "BatchGet", "BatchCheck"} {
		if strings.HasPrefix(verb, reading) {
			return false
		}
	}
	return true
}

// permissions returns the statements of all policies of a cluster, by their node.
func permissions(t *testing.T, files map[string]string) map[string][]iamStatement {
	t.Helper()
	in := read(t, aCluster().Documents(t, files))
	setAddresses(t, in.Facts)
	g := &graph.Graph{}
	if err := Build(in, g); err != nil {
		return nil // a transcript of an error
	}
	all := map[string][]iamStatement{}
	for n := range g.All() {
		text := ""
		switch want := n.Want.(type) {
		case *kinds.IAMRolePolicy:
			if strings.HasPrefix(want.Name, "additional.") { // written by the user
				continue
			}
			text = want.Policy
		case *kinds.Queue:
			text = want.Policy
		default:
			continue
		}
		var doc struct{ Statement []iamStatement }
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		all[n.Address.String()] = doc.Statement
	}
	return all
}

// permissionSpecs returns clusters that together have every component that calls AWS.
func permissionSpecs(t *testing.T) map[string]map[string]string {
	t.Helper()
	specs := map[string]map[string]string{
		"everything": {"cluster": `
networking: {amazonvpc: {}}
iam: {allowContainerRegistry: true}
containerd: {useECRCredentialsForMirrors: true}
certManager: {enabled: true, hostedZoneIDs: [Z123]}
clusterAutoscaler: {enabled: true}
snapshotController: {enabled: true}
encryptionConfig: true
awsLoadBalancerController: {enabled: true, enableWAF: true, enableWAFv2: true, enableShield: true}
`, "groups": `
cp: {role: Master, machineType: m3.medium, image: i, subnets: [us-test-1a], securityGroupOverride: sg-controlplane}
nodes: {role: Node, machineType: t2.medium, image: i, subnets: [us-test-1a], additionalSecurityGroups: [sg-theirs]}
`},
		"cilium eni": {"cluster": "networking: {cilium: {ipam: eni}}\n"},
		"calico":     {"cluster": "networking: {calico: {}}\n"},
		"kindnet":    {"cluster": "networking: {kindnet: {}}\n"},
		"kubenet":    {"cluster": "networking: {kubenet: {}}\n"},
		"metadata":   {"cluster": "nodeTerminationHandler: {enabled: true, enableSQSTerminationDraining: false}\niam: {useServiceAccountExternalPermissions: true}\nserviceAccountIssuerDiscovery: {discoveryStore: \"s3://public/a.example.com\", enableAWSOIDCProvider: true}\n"},
	}
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, p := range paths {
		a, err := txtar.ParseFile(p)
		if err != nil {
			t.Fatal(err)
		}
		specs[p] = modeltest.Sections(a)
	}
	for _, s := range specs {
		if s["groups"] == "" {
			s["groups"] = baseGroups
		}
	}
	return specs
}

// Every action that changes something is restricted to the cluster, except for those in a list on
// the page of permissions, with a reason for each.
func TestGrantsAreBoundToTheCluster(t *testing.T) {
	page, err := os.ReadFile(permissionsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(page), "## Unrestricted actions\n")
	if !ok {
		t.Fatalf("%s has no list of unrestricted actions", permissionsPage)
	}
	documented := map[string]bool{} // whether a cluster has it
	for line := range strings.Lines(list) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.Contains(cells[1], ":") {
			for i, name := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					documented[name] = false
				}
			}
			if len(strings.TrimSpace(cells[2])) < 20 {
				t.Errorf("%s: no reason is given: %s", permissionsPage, line)
			}
		}
	}
	for name, spec := range permissionSpecs(t) {
		for address, statements := range permissions(t, spec) {
			for _, s := range statements {
				if len(s.Condition) > 0 || !slices.Contains(items(s.Resource), "*") {
					continue
				}
				for _, action := range items(s.Action) {
					if _, known := documented[action]; known {
						documented[action] = true
					} else if changes(action) {
						t.Errorf("%s: %s: %s is allowed on everything: bound it, or give the reason in %s", name, address, action, permissionsPage)
					}
				}
			}
		}
	}
	for action, used := range documented {
		if !used {
			t.Errorf("%s lists %s, which no cluster is granted without a bound", permissionsPage, action)
		}
	}
}

// A pod on the host's network must not bring another account's events, volumes or interfaces into
// the cluster, nor the cluster's into another account.
func TestDangerousGrantsNameTheirTarget(t *testing.T) {
	for name, spec := range permissionSpecs(t) {
		for address, statements := range permissions(t, spec) {
			for _, s := range statements {
				for _, action := range items(s.Action) {
					all := strings.Join(items(s.Resource), " ")
					tagged := s.Condition["StringEquals"][keyResourceTag+clusterTag] != nil || s.Condition["StringEquals"][keyRequestTag+clusterTag] != nil
					switch action {
					case "sqs:SendMessage":
						rules, _ := s.Condition["ArnLike"]["aws:SourceArn"].(string)
						if s.Condition["StringEquals"]["aws:SourceAccount"] != "123456789012" || !strings.Contains(rules, ":123456789012:rule/") {
							t.Errorf("%s: %s: the queue takes messages of others: %v", name, address, s.Condition)
						}
					case "sqs:ReceiveMessage", "sqs:DeleteMessage":
						if !strings.HasSuffix(all, "-nth") {
							t.Errorf("%s: %s: %s of %s", name, address, action, all)
						}
					case "ec2:CreateNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute":
						checkGroups(t, name+": "+address, s)
						if strings.Contains(all, ":network-interface/") && !tagged {
							t.Errorf("%s: %s: %s of %s under %v", name, address, action, all, s.Condition)
						}
					case "ec2:CreateTags", "ec2:CreateSnapshot", "ec2:DeleteNetworkInterface", "ec2:AttachNetworkInterface", "ec2:DetachNetworkInterface":
						karpenter := strings.Contains(address, "/karpenter.")
						if !tagged && !karpenter {
							t.Errorf("%s: %s: %s of %s under %v", name, address, action, all, s.Condition)
						}
					}
				}
			}
		}
	}
}

// checkGroups rejects a statement that allows giving an interface someone else's security group, or
// a worker's interface a control plane's group.
func checkGroups(t *testing.T, what string, s iamStatement) {
	t.Helper()
	worker := strings.Contains(what, "/nodes.")
	for _, arn := range items(s.Resource) {
		_, group, found := strings.Cut(arn, ":security-group/")
		switch {
		case !found:
		case group == "sg-controlplane" && worker:
			t.Errorf("%s: a worker may give the group of a control plane", what)
		case group == "*" && s.Condition["StringEquals"][keyResourceTag+clusterTag] == nil:
			t.Errorf("%s: any security group can be given", what)
		case group == "*" && worker && !strings.HasPrefix(fmt.Sprint(s.Condition["StringNotEquals"][keyResourceTag+"Name"]), "masters."):
			t.Errorf("%s: a worker may give the groups of control planes: %v", what, s.Condition)
		}
	}
}
