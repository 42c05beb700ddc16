package addons_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/channels"
	"kops.local/kops/internal/test/goldentest"
	"kops.local/kops/internal/test/kubetest"
	"kops.local/kops/internal/test/takeover"
	"kops.local/kops/internal/test/turns"
)

// scenarios returns the clusters of kOps that are taken over, by name.
func scenarios(t *testing.T) map[string]addons.Input {
	t.Helper()
	files, err := filepath.Glob("testdata/takeover/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal("no clusters to take over: ", err)
	}
	out := map[string]addons.Input{}
	for _, f := range files {
		out[strings.TrimSuffix(filepath.Base(f), ".yaml")] = changed(t, goldentest.Read(t, filepath.Dir(f), filepath.Base(f)), func(*api.ClusterSpec) {})
	}
	return out
}

// tableName returns the name of a channel's file in the table of kOps' objects.
func tableName(f addons.File) string {
	return f.Name + "-" + strings.TrimSuffix(filepath.Base(f.Path), ".yaml")
}

// TestTakeoverAndHandBack: kOps' objects run, kops' own are applied over them, and kOps' again.
// Nothing is refused; nothing is recreated, removed or left behind that testdata/takeover.yaml does
// not list; and objects of users stay as they are.
func TestTakeoverAndHandBack(t *testing.T) {
	kubetest.Programs(t)
	mine := turns.ItemsOfTurn(t, 4)
	rows := takeover.Rows(t)
	var reviewed map[string]string
	if err := yaml.UnmarshalStrict(goldentest.Read(t, "testdata", "takeover.yaml"), &reviewed); err != nil {
		t.Fatal(err)
	}
	for name, in := range scenarios(t) {
		if !mine(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := &takenOver{T: t, in: in, ours: build(t, in), reviewed: reviewed}
			ip := in.Cluster.Spec.Networking.ServiceClusterIPRange
			config := kubetest.Serve(t, "--etcd-servers="+kubetest.Etcd(t), "--service-cluster-ip-range="+ip, "--disable-admission-plugins=ServiceAccount,ValidatingAdmissionWebhook,MutatingAdmissionWebhook")
			config.WarningHandler = rest.NoWarnings{}
			var err error
			if c.Applier, err = channels.NewApplier(config); err != nil {
				t.Fatal(err)
			}
			c.Clock, c.Log = bootstrap.SystemClock(), slog.New(slog.DiscardHandler)
			c.Issuer = pki.Issuer{Rand: rand.Reader, Now: time.Now, Generate: func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }}
			c.run(rows, name)
		})
	}
}

// takenOver is a cluster that is taken over and handed back.
type takenOver struct {
	*testing.T
	*channels.Applier
	in       addons.Input
	ours     *addons.Result
	theirs   []*unstructured.Unstructured
	reviewed map[string]string // why, by what happens and to which object
}

func (c *takenOver) run(rows []takeover.Row, scenario string) {
	own := map[string]*unstructured.Unstructured{} // by KIND/NAMESPACE/NAME
	for _, f := range c.ours.Files {
		for _, o := range c.decode(f) {
			own[refOf(o.Object)] = o
		}
		for _, o := range takeover.Objects(c.T, rows, tableName(f), scenario, c.in.Cluster.Name) {
			c.theirs = append(c.theirs, &unstructured.Unstructured{Object: define(o, own)})
		}
	}
	if len(c.theirs) < 20 {
		c.Fatalf("kOps has only %d objects", len(c.theirs))
	}
	c.applyTheirs("kOps")
	users := c.createUsers(own)
	before := c.uids(c.theirs)

	c.applyOurs()
	after := c.uids(c.theirs)
	for name, uid := range before {
		switch {
		case after[name] == "":
			c.review("removed", name)
		case after[name] != uid:
			c.review("recreated", name)
		case own[name] == nil:
			c.review("left behind", name)
		}
	}
	c.checkUsers(users)

	c.applyTheirs("kOps again")
	for name, uid := range c.uids(c.theirs) {
		if after[name] != "" && after[name] != uid {
			c.Errorf("handed back: %s was recreated", name)
		}
	}
	c.Logf("%d objects of kOps, %d of ours, %d of users", len(c.theirs), len(own), len(users))
}

// review reports what happened to an object, unless it is expected.
func (c *takenOver) review(what, name string) {
	if c.reviewed[what+" "+name] == "" {
		c.Errorf("%s: %s", what, name)
	}
}

func (c *takenOver) decode(f addons.File) []*unstructured.Unstructured {
	objects, err := addons.Decode(f.Content)
	if err != nil {
		c.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, o := range objects {
		text, err := json.Marshal(o) // which gives numbers the types that unstructured objects have
		u := &unstructured.Unstructured{}
		if err == nil {
			err = u.UnmarshalJSON(text)
		}
		if err != nil {
			c.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

// find returns the API endpoint for an object, whose namespace is "default" if it names none.
func (c *takenOver) find(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	m, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.Mapper.Reset()
		m, err = c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() != meta.RESTScopeNameNamespace {
		return c.Client.Resource(m.Resource), nil
	}
	return c.Client.Resource(m.Resource).Namespace(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)), nil
}

// define completes a custom resource definition of kOps: the table has its group, scope and
// versions, and its names are those of ours.
func define(o map[string]any, own map[string]*unstructured.Unstructured) map[string]any {
	if o["kind"] != "CustomResourceDefinition" {
		return o
	}
	u := &unstructured.Unstructured{Object: o}
	spec, _, _ := unstructured.NestedMap(o, "spec")
	plural, _, _ := strings.Cut(u.GetName(), ".")
	spec["names"] = map[string]any{"plural": plural, "kind": strings.ToUpper(plural[:1]) + plural[1:]}
	if mine := own[refOf(u.Object)]; mine != nil {
		spec["names"], _, _ = unstructured.NestedMap(mine.Object, "spec", "names")
	}
	var versions []any
	names, _, _ := unstructured.NestedStringSlice(spec, "versions")
	for i, name := range names {
		versions = append(versions, map[string]any{"name": name, "served": true, "storage": i == 0, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	spec["versions"] = versions
	metadata, _ := o["metadata"].(map[string]any)
	metadata["annotations"] = map[string]any{"api-approved.kubernetes.io": "https://example.com"}
	return map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": o["kind"], "metadata": metadata, "spec": spec}
}

// applyTheirs applies kOps' objects as kOps does. Those that fail are tried again, since definitions
// take a moment.
func (c *takenOver) applyTheirs(who string) {
	c.Helper()
	todo := c.theirs
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		var failed []*unstructured.Unstructured
		var errs []error
		for _, o := range todo {
			if err := c.applyAs(o); err != nil {
				failed, errs = append(failed, o), append(errs, fmt.Errorf("%s is refused: %s: %w", who, refOf(o.Object), err))
			}
		}
		if len(failed) == 0 {
			return
		}
		if todo = failed; time.Now().After(deadline) {
			c.Fatal(errors.Join(errs...))
		}
	}
}

func (c *takenOver) applyAs(o *unstructured.Unstructured) error {
	r, err := c.find(o)
	if err != nil {
		return err
	}
	_, err = r.Apply(c.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "kops", Force: true})
	return err
}

// applyOurs applies kops' own channel. Nothing runs the pods, so workloads do not work.
func (c *takenOver) applyOurs() {
	files := map[string][]byte{"/bootstrap-channel.yaml": c.ours.Channel}
	for _, f := range c.ours.Files {
		files["/"+f.Path] = f.Content
	}
	c.Fetch = func(_ context.Context, url string) ([]byte, error) {
		if text, ok := files[url]; ok {
			return text, nil
		}
		return nil, fault.New(fault.Gone, "no file %s", url)
	}
	for range 3 { // definitions take a moment
		err := c.Pass(c.Context(), []string{"/bootstrap-channel.yaml"})
		if c.refused(err) == "" {
			return
		}
		time.Sleep(time.Second)
	}
	c.Fatal("refused: ", c.refused(c.Pass(c.Context(), []string{"/bootstrap-channel.yaml"})))
}

// refused returns what an error says about objects that could not be applied.
func (c *takenOver) refused(err error) string {
	var out []string
	for line := range strings.Lines(errorText(err)) {
		if strings.Contains(line, "apply ") || strings.Contains(line, "prune ") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// createUsers creates what a user may have: objects of the kinds and names that kops has and kOps does
// not, and those that kOps leaves to users.
func (c *takenOver) createUsers(own map[string]*unstructured.Unstructured) []*unstructured.Unstructured {
	theirs := map[string]bool{}
	for _, o := range c.theirs {
		theirs[refOf(o.Object)] = true
	}
	users := []*unstructured.Unstructured{usersObject("ConfigMap", "kube-system", "aws-iam-authenticator"), usersObject("ConfigMap", "kube-system", "coredns-autoscaler"),
		usersObject("Secret", "kube-system", "cilium-ipsec-keys")}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if o := own[name]; !theirs[name] && (o.GetKind() == "ConfigMap" || o.GetKind() == "Secret") {
			users = append(users, usersObject(o.GetKind(), o.GetNamespace(), o.GetName()))
		}
	}
	var out []*unstructured.Unstructured
	for _, o := range users {
		r, err := c.find(o)
		if err != nil {
			c.Fatal(err)
		}
		made, err := r.Create(c.Context(), o, metav1.CreateOptions{FieldManager: "kubectl-create"})
		if apierrors.IsAlreadyExists(err) {
			continue // it is in the list twice
		}
		if err != nil {
			c.Fatal(err)
		}
		out = append(out, made)
	}
	return out
}

func usersObject(kind, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name}, "data": map[string]any{"mine": "bWluZQ=="}}}
}

func (c *takenOver) checkUsers(users []*unstructured.Unstructured) {
	for _, o := range users {
		r, err := c.find(o)
		if err != nil {
			c.Fatal(err)
		}
		now, err := r.Get(c.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			c.Errorf("the user's %s: %v", refOf(o.Object), err)
			continue
		}
		a, _ := o.MarshalJSON()
		b, _ := now.MarshalJSON()
		if !bytes.Equal(a, b) {
			c.Errorf("the user's %s was changed:\n%s\n%s", refOf(o.Object), a, b)
		}
	}
}

// uids returns the identities of the objects that exist, by KIND/NAMESPACE/NAME.
func (c *takenOver) uids(objects []*unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, o := range objects {
		r, err := c.find(o)
		if err != nil {
			c.Fatal(err)
		}
		now, err := r.Get(c.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			c.Fatal(err)
		}
		if err == nil {
			out[refOf(o.Object)] = string(now.GetUID())
		}
	}
	return out
}
