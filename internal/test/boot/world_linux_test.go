package boot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/download"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/model/managedfile"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/onstore"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/sandbox"
	"kops.local/kops/internal/test/spectest"
)

//go:embed testdata/cluster.yaml
var spec []byte

// controllerIP is the address of the control plane's machine.
const controllerIP = "10.0.0.9"

const (
	region    = "us-east-1"
	base      = "s3://state/k.example.com"
	account   = "123456789012"
	instance  = "i-0123456789abcdef0"
	storeHost = "state.s3.us-east-1.amazonaws.com"
	dualHost  = "state.s3.dualstack.us-east-1.amazonaws.com" // an alias
	tokenHost = "sts.us-east-1.amazonaws.com"
)

// world is a cluster's store, its control plane, and the other servers of machines, each under its own name.
type world struct {
	*testing.T
	in     model.Input
	store  store.Store // with its owner's access
	nodeup programs.File
	// trusted is the authority that machines trust, foreign one that they do not.
	trusted, foreign *sandbox.Authority
	issuer           pki.Issuer
	moto             *url.URL
	role             map[string]string

	mu     sync.Mutex
	faults faultSet
	server *http.Server // kops-controller's, which only the test starts and stops
	// files are the store's files, by key; changed are the keys of the spoiled ones.
	files   map[string][]byte
	changed []string
	// replay is served by kops-controller instead of each program, repeatedly if
	// endless; nil means the right program.
	replay  []byte
	endless bool
}

// faultSet is the current fault.
type faultSet struct {
	denied    bool          // the store refuses every client
	authority bool          // the public servers present certificates of another authority
	roleless  bool          // the machine has no role
	file      bool          // mirrors serve a file with one changed byte
	clock     time.Duration // of the store and the token service
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sandbox.AddAddress(t, controllerIP)
	w := &world{T: t, issuer: sandbox.Issuer(), files: map[string][]byte{}, trusted: sandbox.TrustedAuthority(t), foreign: sandbox.NewAuthority(t)}
	var err error
	moto := awstest.Moto(t)
	if w.moto, err = url.Parse(moto.URL); err != nil {
		t.Fatal(err)
	}
	moto.Bucket(t, "state")
	env := map[string]string{"S3_ENDPOINT": moto.URL, "S3_REGION": region, "S3_ACCESS_KEY_ID": "id", "S3_SECRET_ACCESS_KEY": "secret"}
	if w.store, err = open.Backends(open.Options{Env: func(n string) string { return env[n] }}).Open(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	assumed, err := sts.NewFromConfig(moto.AWS()).AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::" + account + ":role/nodes.k.example.com"), RoleSessionName: aws.String(instance)})
	if err != nil {
		t.Fatal(err)
	}
	c := assumed.Credentials
	w.role = ec2test.Role(t, "nodes.k.example.com", awsquery.Credentials{ID: *c.AccessKeyId, Secret: *c.SecretAccessKey, Token: *c.SessionToken})
	for key, text := range map[string]string{"instance-id": instance, "local-hostname": "ip-10-0-0-8.ec2.internal", "local-ipv4": "10.0.0.8", "placement/availability-zone": region + "a"} {
		w.role[key] = text
	}
	w.model()
	sandbox.Serve(t, net.JoinHostPort(sandbox.MetadataIP, "80"), http.HandlerFunc(w.metadata), nil)
	sandbox.Serve(t, "127.0.0.1:443", http.HandlerFunc(w.public), w.serverCertificate)
	w.startController(w.own())
	t.Cleanup(w.stopController)
	return w
}

// setFault sets the current fault.
func (w *world) setFault(now faultSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = now
}

// replacePrograms makes kops-controller serve something else for every program; nil means the right one.
func (w *world) replacePrograms(data []byte, endless bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replay, w.endless = data, endless
}

func (w *world) currentFault() faultSet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults
}

func (w *world) serverCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if w.currentFault().authority {
		return w.foreign.Certificate(hello.ServerName)
	}
	return w.trusted.Certificate(hello.ServerName)
}

func (w *world) metadata(rw http.ResponseWriter, r *http.Request) {
	if w.currentFault().roleless && strings.Contains(r.URL.Path, "/iam/") {
		http.NotFound(rw, r)
		return
	}
	ec2test.Handler(w.role).ServeHTTP(rw, r)
}

// public serves AWS, emulated by moto, and all mirrors.
func (w *world) public(rw http.ResponseWriter, r *http.Request) {
	now := w.currentFault()
	if r.Host == dualHost {
		r.Host = storeHost
	}
	if r.Host != storeHost && r.Host != tokenHost {
		data := bytes.Clone(sandbox.Archive(w))
		if now.file {
			data[len(data)/2] ^= 1
		}
		_, _ = rw.Write(data) // the client notices what is missing
		return
	}
	here := time.Now().Add(now.clock)
	rw.Header().Set("Date", here.UTC().Format(http.TimeFormat))
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	skewed := err == nil && here.Sub(signed).Abs() > 15*time.Minute
	rw.Header().Set("Content-Type", "application/xml")
	switch {
	case skewed && r.Host == tokenHost: // like the token service
		rw.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(rw, "<ErrorResponse><Error><Type>Sender</Type><Code>SignatureDoesNotMatch</Code><Message>Signature expired: %s is now earlier than %s (%s - 15 min.)</Message></Error><RequestId>r</RequestId></ErrorResponse>",
			r.Header.Get("X-Amz-Date"), here.Add(-15*time.Minute).Format("20060102T150405Z"), here.Format("20060102T150405Z"))
	case skewed: // Amazon S3 API reference, "Error responses"
		rw.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(rw, "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the current time is too large.</Message><RequestTime>%s</RequestTime><ServerTime>%s</ServerTime></Error>",
			r.Header.Get("X-Amz-Date"), here.UTC().Format(time.RFC3339))
	case now.denied && r.Host == storeHost:
		rw.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(rw, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message><RequestId>r</RequestId></Error>")
	default:
		p := httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(w.moto); p.Out.Host = p.In.Host }, ErrorLog: log.New(io.Discard, "", 0),
			ModifyResponse: func(answer *http.Response) error { answer.Header.Del("Date"); return nil }}
		p.ServeHTTP(rw, r)
	}
}

// onlyInstance is the only machine of the account.
type onlyInstance struct{}

func (onlyInstance) Instance(_ context.Context, id string) (awssts.Instance, error) {
	return awssts.Instance{NodeName: id, Group: "nodes", Names: []string{id, "10.0.0.8"}}, nil
}

// nobody is a cluster without nodes.
type nobody struct{}

func (nobody) State(context.Context, string) (controller.NodeState, error) {
	return controller.NodeAbsent, nil
}

// own returns the cluster's own authority.
func (w *world) own() *sandbox.Authority { return sandbox.AuthorityOf(w.in.Keysets[pki.KubernetesCA]) }

// startController starts kops-controller, with a certificate of an authority.
func (w *world) startController(by *sandbox.Authority) {
	w.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	env := map[string]string{"AWS_REGION": region, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
	folder, err := open.Backends(open.Options{Env: func(n string) string { return env[n] }, HTTP: client}).Open(w.Context(), base)
	if err != nil {
		w.Fatal(err)
	}
	ca := w.in.Keysets[pki.KubernetesCA]
	stored := controller.Stored{Base: folder, Secrets: store.Sub(folder, "secrets")}
	s := &controller.Server{
		Verifier: &awssts.Verifier{Endpoint: "https://" + tokenHost + "/", HTTP: client, Account: account, Partition: "aws", Roles: []string{"nodes.k.example.com"}, Instances: onlyInstance{}, Now: time.Now},
		Nodes:    nobody{}, Configs: stored, Signers: map[string]*pki.Keyset{pki.KubernetesCA: ca}, Trusted: x509.NewCertPool(), Gate: controller.NewGate(time.Now),
		Allowed: []string{"kubelet", "kubelet-server", "kube-proxy"}, Issuer: w.issuer, Log: slog.New(slog.DiscardHandler), Programs: controller.NewPrograms(folder, time.Now),
	}
	own, err := by.Certificate("kops-controller.internal.k.example.com")
	if err != nil {
		w.Fatal(err)
	}
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		replay, endless := w.replay, w.endless
		w.mu.Unlock()
		if replay == nil || !strings.HasPrefix(r.URL.Path, "/"+programs.Folder) {
			s.ServeHTTP(rw, r)
			return
		}
		for {
			if _, err := rw.Write(replay); err != nil || !endless {
				return // the client notices what is missing
			}
		}
	})
	w.server = sandbox.Serve(w, net.JoinHostPort(controllerIP, "3988"), h, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own, nil })
}

func (w *world) stopController() { _ = w.server.Close() }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// model uploads all files of the cluster to its store, as an update does.
func (w *world) model() {
	w.Helper()
	cluster, groups := spectest.Read(w, spec)
	known := spectest.Facts(w, "../../spec/complete/testdata")
	known.FileHashes = map[string]string{"*": digest(sandbox.Archive(w))}
	done, findings := complete.Complete(complete.Input{Platform: platformtest.Of(cluster).ForComplete(), Cluster: cluster, Groups: groups, Facts: known, Channel: spectest.Stable(w), KopsVersion: "1.37.0"})
	if err := findings.Err(); err != nil {
		w.Fatal(err)
	}
	w.nodeup = programs.File{Path: "linux/nodeup.gz", SHA256: digest(sandbox.Compress(w, sandbox.Nodeup)), Program: digest([]byte(sandbox.Nodeup))}
	w.in = model.Input{Traits: &platformtest.Of(cluster).Traits, Cluster: done.Spec, Groups: done.Groups, NodeVersion: done.NodeVersion, Version: "1.37.0", Region: region, Facts: known,
		Buckets: onstore.Buckets(open.Backends(open.Options{Env: func(string) string { return "" }}))}
	w.in.Own.Programs = &programs.Index{Nodeup: map[download.Arch]programs.File{}}
	for _, a := range download.Arches() {
		w.in.Own.Programs.Nodeup[a] = w.nodeup
	}
	var err error
	if w.in.Keysets, _, err = pki.Ensure(nil, pki.KeysetNames(w.in.Cluster), w.issuer); err != nil {
		w.Fatal(err)
	}
	nodes, _, err := model.Build(w.in)
	if err != nil {
		w.Fatal(err)
	}
	for _, n := range nodes {
		if k, ok := n.Want.(*managedfile.Private); ok && w.in.Keysets[n.Name] != nil {
			text, _ := k.Content.Value().Known()
			w.files["pki/private/"+n.Name+"/keyset.yaml"] = []byte(text)
		}
		if f, ok := n.Want.(*managedfile.File); ok {
			text, known := f.Content.Value().Known()
			if key, own := strings.CutPrefix(f.Key, "k.example.com/"); known && own {
				w.files[key] = []byte(text)
			}
		}
	}
	w.files[w.nodeup.Key()] = sandbox.Compress(w, sandbox.Nodeup)
	for key, data := range w.files {
		w.put(key, data)
	}
}

// replaceObject replaces the content of a key, or deletes the key if data is nil.
func (w *world) replaceObject(key string, data []byte) {
	w.Helper()
	if w.files[key] == nil {
		w.Fatalf("the store has no %s", key)
	}
	w.changed = append(w.changed, key)
	if data != nil {
		w.put(key, data)
	} else if err := w.store.Delete(w.Context(), key, store.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) put(key string, data []byte) {
	w.Helper()
	if _, err := w.store.Put(w.Context(), key, data, store.PutOptions{}); err != nil {
		w.Fatal(err)
	}
}

// userData returns the first boot script of machines of a role.
func (w *world) userData(role api.InstanceGroupRole) string {
	w.Helper()
	for _, g := range w.in.Groups {
		if g.Spec.Role == role {
			c, err := model.UserData(w.in, g, resource.Lit(controllerIP))
			if err != nil {
				w.Fatal(err)
			}
			text, known := c.Value().Known()
			if !known {
				w.Fatalf("the user data depends on %s", c.Value())
			}
			return text
		}
	}
	w.Fatalf("no group has the role %s", role)
	return ""
}
