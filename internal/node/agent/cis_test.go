package agent_test

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

// cisTable has a line for each check of the benchmark:
//
//	mode MODE PATH…              the files that exist have no more permissions than MODE
//	owner PATH…                  the files that exist are owned by root
//	flag PROGRAM NAMES OP VALUE  flags of a static pod's program, or of the kubelet
//	kubelet PATHS OP VALUE       values of the kubelet's configuration
//	pods MODE [LEVEL]            what admission does with pods that violate the level, baseline by default
//	audited, encrypted, confined, authorities KEYSET…
//	test PACKAGE NAME            another test covers the check
//	-                            nothing, for the reason given
//
// An operator is set, unset, eq, has, lacks, atleast, within, or usually, which is eq or unset. A
// check whose line begins with aws or local applies to that cloud only.
//
//go:embed testdata/cis.tsv
var cisTable string

// hardened returns a machine of a cluster that was created with --hardened, or on this host.
func hardened(t *testing.T, cloud string) *world {
	t.Helper()
	o := newcluster.Options{ClusterName: "cis.k8s.local", CloudProvider: cloud, ConfigBase: "s3://clusters.example.com/cis.k8s.local", Networking: "calico"}
	known := spectest.Facts(t, "../../spec/complete/testdata")
	input := "testdata/local-control-plane.txtar"
	if cloud == "aws" {
		input = "testdata/aws-control-plane.txtar"
		o.Hardened, o.Zones, o.ControlPlaneSizes, o.NodeSizes = true, []string{"us-test-1a"}, []string{"m3.medium"}, []string{"t2.medium"}
	} else {
		known = &facts.Facts{Clouds: map[string]*facts.Cloud{"local": {FreeNetwork: "10.77.0.0/24", Architecture: "amd64"}}}
		o.Networking = ""
	}
	channel, on := spectest.Stable(t), platformtest.Named(cloud)
	cluster, groups, findings := newcluster.New(o, newcluster.World{Platform: on.ForNew(), Complete: on.ForComplete(), Facts: known, Channel: channel, KopsVersion: "1.37.0"})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	done, findings := complete.Complete(complete.Input{Platform: on.ForComplete(), Cluster: cluster, Groups: groups, Facts: known, Channel: channel, KopsVersion: "1.37.0", ConfigBase: o.ConfigBase})
	if err := findings.Err(); err != nil {
		t.Fatal(err)
	}
	if cloud == "local" { // whose bundle contains all files
		release := "https://dl.k8s.io/release/v" + done.NodeVersion + "/bin/linux/amd64/"
		known.FileHashes = map[string]string{}
		for _, url := range []string{"https://kops.internal/binaries/kops/1.37.0/linux/amd64/nodeup", release + "kubelet", release + "kubectl"} {
			known.FileHashes[url] = strings.Repeat("0", 64)
		}
	}
	in := model.Input{Traits: &on.Traits, Cluster: done.Spec, Groups: done.Groups, NodeVersion: done.NodeVersion, Version: "1.37.0", Region: "us-test-1", Facts: known, Keysets: authorities(), AllowUnverified: true}
	var err error
	if in.EncryptionConfig, err = pki.NewEncryptionConfig(bytes.NewReader(make([]byte, 32))); err != nil {
		t.Fatal(err)
	}
	nodes, _, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, input)
	var boot nodeconfig.Boot
	w.decode(string(w.boot), &boot)
	boot.ClusterName, boot.ConfigBase = o.ClusterName, o.ConfigBase
	for _, g := range done.Groups {
		if g.Spec.Role == api.RoleControlPlane {
			boot.InstanceGroupName = g.Name
		}
	}
	w.store = store{}
	for _, n := range nodes {
		if f, ok := n.Want.(*managedfile.File); ok {
			text, _ := f.Content.Value().Known()
			w.store[f.Store+"/"+f.Key] = []byte(text)
		}
	}
	config := string(w.store[boot.ConfigBase+"/igconfig/control-plane/"+boot.InstanceGroupName+"/nodeupconfig.yaml"])
	w.config = w.configuration(strings.ReplaceAll(config, download.Unverified+"@", strings.Repeat("0", 64)+"@"))
	sum := sha256.Sum256(w.config)
	boot.NodeupConfigHash = base64.StdEncoding.EncodeToString(sum[:])
	w.fillStore(boot)
	text, err := pki.EncodeSecret(in.EncryptionConfig)
	if err != nil {
		t.Fatal(err)
	}
	w.store[boot.ConfigBase+"/secrets/"+pki.EncryptionConfig] = text
	if w.boot, err = yaml.Marshal(boot); err != nil {
		t.Fatal(err)
	}
	if err := w.converge(); err != nil {
		t.Fatal(err)
	}
	return w
}

// cis runs the checks on a machine.
type cis struct {
	*world
	cloud  string
	checks map[string]func(args []string) error
}

func TestAHardenedClusterFollowsTheBenchmark(t *testing.T) {
	for _, cloud := range []string{"aws", "local"} {
		c := &cis{world: hardened(t, cloud), cloud: cloud}
		c.checks = map[string]func([]string) error{"mode": c.checkMode, "owner": c.checkOwner, "flag": c.checkFlag, "kubelet": c.checkKubelet, "pods": c.pods,
			"audited": c.checkAudit, "encrypted": c.checkEncryption, "confined": c.confined, "authorities": c.checkAuthorities, "test": c.test}
		ids := map[string]bool{}
		for line := range strings.Lines(cisTable) {
			if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") {
				continue
			}
			f := append(strings.Split(line, "\t"), "")
			id, check, reason := f[0], strings.Fields(f[2]), f[3]
			if len(check) == 0 || f[1] == "" || ids[id] {
				t.Fatalf("%q is no check, or one that is there already", line)
			}
			ids[id] = true
			only := check[0] == "aws" || check[0] == "local"
			if (only || check[0] == "-") != (reason != "") {
				t.Errorf("%s: what is not tested has a reason, and nothing else", id)
			}
			if only && check[0] != cloud || check[0] == "-" {
				continue
			}
			if only {
				check = check[1:]
			}
			do := c.checks[check[0]]
			if do == nil {
				t.Fatalf("%s: %q is no check", id, check[0])
			}
			if err := do(check[1:]); err != nil {
				t.Errorf("%s %s, on %s: %v", id, f[1], cloud, err)
			}
		}
		if len(ids) != 133 {
			t.Errorf("%d checks, want the benchmark's", len(ids))
		}
	}
}

// findFiles returns the files that match the patterns; each pattern must match one.
func (c *cis) findFiles(patterns []string) (out []string, err error) {
	for _, p := range patterns {
		all, err := filepath.Glob(filepath.Join(c.root, p))
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", p, err)
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("no file %s", p)
		}
		out = append(out, all...)
	}
	return out, nil
}

func (c *cis) checkMode(args []string) error {
	most, err := strconv.ParseUint(args[0], 8, 12)
	if err != nil {
		return err
	}
	files, err := c.findFiles(args[1:])
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return err
		}
		if m := info.Mode().Perm(); m&^fs.FileMode(most) != 0 && !info.IsDir() {
			return fmt.Errorf("%s has the mode %04o", f, m)
		}
	}
	return err
}

// checkOwner trusts the requested owner where the test cannot change owners of files.
func (c *cis) checkOwner(args []string) error {
	files, err := c.findFiles(args)
	for _, f := range files {
		path := strings.TrimPrefix(f, c.root)
		got, err := host.Files.List(c.Context(), c.machine, resource.Scope{Names: []string{path}})
		if err != nil {
			return err
		}
		for _, g := range got {
			if g.Owner != 0 || g.Group != 0 {
				return fmt.Errorf("%s is of %d:%d", path, g.Owner, g.Group)
			}
		}
	}
	return err
}

// findContainer returns the container of a static pod's program.
func (c *cis) findContainer(program string) (out corev1.Container, err error) {
	var p corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(c.read("/etc/kubernetes/manifests/"+program+".manifest")), &p); err != nil {
		return out, err
	}
	return p.Spec.Containers[0], nil
}

func (c *cis) checkFlag(args []string) error {
	var command []string
	if args[0] == "kubelet" {
		command = strings.Fields(strings.ReplaceAll(c.read("/etc/sysconfig/kubelet"), `"`, " "))
	} else {
		k, err := c.findContainer(args[0])
		if err != nil {
			return err
		}
		command = k.Command
	}
	return compareArguments(args[1:], func(name string) (string, bool) {
		for _, f := range command {
			if value, ok := strings.CutPrefix(f, name+"="); ok {
				return value, true
			}
		}
		return "", false
	})
}

func (c *cis) checkKubelet(args []string) error {
	var all map[string]any
	c.decode(c.read("/var/lib/kubelet/kubelet.conf"), &all)
	return compareArguments(args, func(path string) (string, bool) {
		var at any = all
		for name := range strings.SplitSeq(path, ".") {
			m, _ := at.(map[string]any)
			at = m[name]
		}
		if list, ok := at.([]any); ok {
			return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ","), true
		}
		return fmt.Sprint(at), at != nil
	})
}

// compareArguments compares values by name.
func compareArguments(args []string, get func(name string) (string, bool)) error {
	op, want := args[1], strings.Join(args[2:], " ")
	for name := range strings.SplitSeq(args[0], ",") {
		value, set := get(name)
		items := strings.Split(value, ",")
		n, _ := strconv.Atoi(value) //nolint:errcheck // what is not a number counts as 0
		least, _ := strconv.Atoi(want)
		good, known := map[string]bool{
			"set": set, "unset": !set, "eq": set && value == want, "usually": !set || value == want,
			"has": slices.Contains(items, want), "lacks": !slices.Contains(items, want), "atleast": set && n >= least,
			"within": set && !slices.ContainsFunc(items, func(s string) bool { return !slices.Contains(strings.Split(want, ","), s) }),
		}[op]
		if !known || !good {
			return fmt.Errorf("%s: got %q, want %s %s", name, value, op, want)
		}
	}
	return nil
}

// pods checks what admission does in a namespace that sets no level.
func (c *cis) pods(args []string) error {
	path, err := c.argumentValue("--admission-control-config-file")
	if err != nil {
		return err
	}
	var a struct {
		Plugins []struct {
			Name          string
			Configuration struct {
				Defaults   map[string]string
				Exemptions struct{ Namespaces []string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(c.read(path)), &a); err != nil {
		return err
	}
	for _, p := range a.Plugins {
		level := p.Configuration.Defaults[args[0]]
		want := append(args, "baseline")[1]
		if p.Name == "PodSecurity" && (level == want || level == "restricted") && slices.Equal(p.Configuration.Exemptions.Namespaces, []string{"kube-system"}) {
			return nil
		}
	}
	return fmt.Errorf("got %+v", a)
}

// argumentValue returns the value of a flag of the API server.
func (c *cis) argumentValue(name string) (value string, err error) {
	k, err := c.findContainer("kube-apiserver")
	for _, f := range k.Command {
		if v, ok := strings.CutPrefix(f, name+"="); ok {
			return v, nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("no %s", name))
}

// checkAudit checks that access to secrets and into pods is logged, without the contents.
func (c *cis) checkAudit([]string) error {
	path, err := c.argumentValue("--audit-policy-file")
	if err != nil {
		return err
	}
	var p struct {
		Rules []struct {
			Level     string
			Resources []struct {
				Group     string
				Resources []string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(c.read(path)), &p); err != nil {
		return err
	}
	logged := map[string]bool{}
	for _, r := range p.Rules {
		if r.Level != "None" && r.Level != "Metadata" {
			return fmt.Errorf("the level %s logs what requests hold", r.Level)
		}
		for _, g := range r.Resources {
			for _, name := range append(g.Resources, g.Group) {
				logged[name] = r.Level == "Metadata"
			}
		}
	}
	for _, name := range []string{"secrets", "configmaps", "authentication.k8s.io", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"} {
		if !logged[name] {
			return fmt.Errorf("%s are not logged", name)
		}
	}
	if last := p.Rules[len(p.Rules)-1]; last.Level != "Metadata" || last.Resources != nil {
		return fmt.Errorf("the rest is not logged: %+v", last)
	}
	return nil
}

func (c *cis) checkEncryption([]string) error {
	path, err := c.argumentValue("--encryption-provider-config")
	if err != nil {
		return err
	}
	if _, after, _ := strings.Cut(c.read(path), "providers:\n"); !strings.HasPrefix(strings.TrimLeft(after, " -"), "secretbox:") {
		return errors.New("the first provider is another")
	}
	return c.checkMode([]string{"0600", path})
}

// confined checks the control plane's pods that do not need full access to the machine.
func (c *cis) confined([]string) error {
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kops-channels"} {
		k, err := c.findContainer(program)
		if err != nil {
			return err
		}
		s := k.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			return fmt.Errorf("%s: got %+v", program, s)
		}
	}
	return nil
}

// checkAuthorities checks that none of the keysets is the API server's.
func (c *cis) checkAuthorities(names []string) error {
	ca := authorities()[pki.KubernetesCA].Bundle()
	for _, n := range names {
		if k := authorities()[n]; k == nil || k.Bundle() == ca {
			return fmt.Errorf("%s is no authority of its own", n)
		}
	}
	return nil
}

// test checks that the test named in a line exists.
func (c *cis) test(args []string) error {
	files, err := filepath.Glob("../../../" + args[0] + "/*_test.go")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte("func "+args[1]+"(t *testing.T)")) {
			return nil
		}
	}
	return errors.Join(err, fmt.Errorf("there is no %s in %s", args[1], args[0]))
}
