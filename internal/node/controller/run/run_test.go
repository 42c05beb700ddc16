package run

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kops.local/kops/internal/contract/controllerconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/controller"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/platform/aws/awsquery"
	"kops.local/kops/internal/platform/aws/awssts"
	"kops.local/kops/internal/platform/aws/awstest"
	agentec2 "kops.local/kops/internal/platform/aws/node/ec2"
	"kops.local/kops/internal/platform/aws/node/ec2/ec2test"
	"kops.local/kops/internal/platform/controls"
	"kops.local/kops/internal/test/kubetest"
)

// material writes kops-controller's files as they are on a control plane's disk,
// and returns the bundle of its authority and the identifier of the key.
func material(t *testing.T, write func(name, text string)) (bundle, id string) {
	t.Helper()
	issuer := pki.Issuer{Rand: rand.Reader, Now: time.Now}
	all, _, err := pki.Ensure(nil, []string{pki.KubernetesCA}, issuer)
	if err != nil {
		t.Fatal(err)
	}
	ca := all[pki.KubernetesCA]
	own, err := issuer.Issue(pki.Request{Usage: pki.Server, CommonName: "kops-controller", Names: []string{"kops-controller.internal.c.k8s.local"}}, ca)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]pki.PrivateKey{"kubernetes-ca.key": ca.Signer().Key, "kops-controller.key": own.Key} {
		text, err := key.PEM()
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text))
	}
	write("kubernetes-ca.crt", ca.Bundle())
	write("kops-controller.crt", string(pki.EncodeCertificate(own.Certificate)))
	write("keypair-ids.yaml", fmt.Sprintf("kubernetes-ca: %q\n", ca.Primary))
	return ca.Bundle(), ca.Primary
}

// machine returns a machine's key: the public half as text, and the prover.
func machine(t *testing.T, node string) (string, bootstrap.MachineKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return public, bootstrap.MachineKey{Node: node, Key: key, Now: time.Now, Rand: rand.Reader}
}

// writeJSON writes a value to a file.
func writeJSON(t *testing.T, write func(name, text string), name string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	write(name, string(text))
}

// files returns a folder, and a function that writes files to it.
func files(t *testing.T) (dir string, write func(name, text string)) {
	t.Helper()
	dir = t.TempDir()
	return dir, func(name, text string) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReissuedCertificateIsServed(t *testing.T) {
	dir, write := files(t)
	cert, key := filepath.Join(dir, "kops-controller.crt"), filepath.Join(dir, "kops-controller.key")
	if _, err := serving(cert, key); err == nil || !strings.Contains(err.Error(), "read the server's certificate: ") {
		t.Errorf("without files: %v", err)
	}
	material(t, write)
	c, err := serving(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		want, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.GetCertificate(nil)
		if err != nil || !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
			t.Errorf("another certificate than that of the files is served: %v", err)
		}
		material(t, write)
	}
}

// Otherwise each hello from a stranger would cost the parsing of a key; and nodeup writes the key first.
func TestTheCertificateIsReadWhenItChanges(t *testing.T) {
	dir, write := files(t)
	cert, key := filepath.Join(dir, "kops-controller.crt"), filepath.Join(dir, "kops-controller.key")
	material(t, write)
	c, err := serving(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.GetCertificate(nil); err != nil || again != first {
		t.Errorf("it was read again: %v", err)
	}
	old, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	material(t, write)
	fresh, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	write("kops-controller.crt", string(old)) // only the key is another one
	if c, err := c.GetCertificate(nil); err != nil || c != first {
		t.Errorf("while the files do not fit: %v", err)
	}
	write("kops-controller.crt", string(fresh))
	if c, err := c.GetCertificate(nil); err != nil || c == first {
		t.Errorf("the new one is not served: %v", err)
	}
}

func TestMachinesThatProveThemselvesByTheirKeys(t *testing.T) {
	config := kubetest.Start(t)
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("local", func(t *testing.T) {
		dir, write := files(t)
		public, prover := machine(t, "local-1")
		writeJSON(t, write, "machines/local-1.json", map[string]any{"name": "local-1", "group": "nodes", "address": "10.77.0.11", "publicKey": public})
		writeJSON(t, write, "machines/"+host+".json", map[string]any{"name": host})
		if _, err := core.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone-1"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		testJoin(t, config, core.Nodes(), dir, write, "local", "local-1", prover, func() bool {
			_, err := core.Nodes().Get(t.Context(), "gone-1", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
}

// launch starts an instance of the cluster, and returns its identifier.
func launch(t *testing.T, api *ec2.Client) string {
	t.Helper()
	tags := []ec2types.Tag{{Key: aws.String("KubernetesCluster"), Value: aws.String("c.k8s.local")}, {Key: aws.String("kops.k8s.io/instancegroup"), Value: aws.String("nodes")}}
	out, err := api.RunInstances(t.Context(), &ec2.RunInstancesInput{ImageId: aws.String("ami-12345678"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}}})
	if err != nil {
		t.Fatal(err)
	}
	return *out.Instances[0].InstanceId
}

// A machine on AWS proves its role with the credentials from its metadata service.
func TestAMachineOfAWSJoins(t *testing.T) {
	server, config := awstest.Moto(t), kubetest.Start(t)
	for _, v := range server.Environ() {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	api := ec2.NewFromConfig(server.AWS())
	machine := func() string {
		return launch(t, api)
	}
	m, ended := machine(), machine()
	t.Setenv("NODE_NAME", machine())
	if _, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{ended}}); err != nil {
		t.Fatal(err)
	}
	if _, err := core.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ended}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role, err := sts.NewFromConfig(server.AWS()).AssumeRole(t.Context(), &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/nodes.c.k8s.local"), RoleSessionName: &m})
	if err != nil {
		t.Fatal(err)
	}
	c := awsquery.Credentials{ID: *role.Credentials.AccessKeyId, Secret: *role.Credentials.SecretAccessKey, Token: *role.Credentials.SessionToken}
	metadata := agentec2.Metadata{HTTP: http.DefaultClient, Endpoint: ec2test.Serve(t, ec2test.Role(t, "nodes.c.k8s.local", c))}
	dir, write := files(t)
	prover := awssts.Prover{Endpoint: server.URL, Region: "us-east-1", Now: time.Now, Credentials: metadata.Credentials}
	testJoin(t, config, core.Nodes(), dir, write, "aws", m, prover, func() bool {
		_, err := core.Nodes().Get(t.Context(), ended, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// testJoin runs the program for a cloud, lets a machine join, and waits until its
// node has its labels and more returns true.
func testJoin(t *testing.T, config *rest.Config, nodes corev1client.NodeInterface, dir string, write func(name, text string), cloud, node string, prover bootstrap.Prover, more ...func() bool) {
	t.Helper()
	bundle, id := material(t, write)
	write("store/igconfig/node/nodes/nodeupconfig.yaml", "KubeletConfig:\n  nodeLabels: {example.com/disk: fast}\n")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	write("config.yaml", fmt.Sprintf(`{clusterName: c.k8s.local, cloud: %[3]s, configBase: "file://%[1]s/store", server: {Listen: %[2]q, provider: {%[3]s: {machines: %[1]s/machines, nodesRoles: [nodes.c.k8s.local], Region: us-east-1}},
  serverKeyPath: %[1]s/kops-controller.key, serverCertificatePath: %[1]s/kops-controller.crt, caBasePath: %[1]s, signingCAs: [kubernetes-ca], certNames: [kubelet, kubelet-server]}}`, dir, address, cloud))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var log bytes.Buffer
	o := Options{Conf: filepath.Join(dir, "config.yaml"), Kubeconfig: kubetest.Kubeconfig(t, config), Version: "test", Platforms: controls.All(), Env: os.Getenv, Log: daemon.Logger(&log, 0)}
	go func() { ended <- Controller(ctx, o) }()
	defer func() {
		stop()
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("%v\n%s", err, &log)
		}
		if strings.Contains(log.String(), "TLS handshake error") {
			t.Errorf("what tries whether the port is open fills the log:\n%s", &log)
		}
	}()

	var held *tls.Certificate
	transport, err := bootstrap.NewTLS(bundle, "kops-controller.internal.c.k8s.local", func() *tls.Certificate { return held })
	if err != nil {
		t.Fatal(err)
	}
	client := &bootstrap.Client{Servers: []string{"https://" + address + "/"}, Transport: transport, Prover: prover, Clock: bootstrap.SystemClock()}
	got, err := client.NodeConfig(t.Context())
	if err != nil || !strings.Contains(got.NodeupConfig, "example.com/disk") {
		t.Fatalf("got %+v, %v", got, err)
	}
	if probe, err := net.Dial("tcp", address); err != nil { // as a load balancer does
		t.Fatal(err)
	} else if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	fresh, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := bootstrap.EncodePublicKey(fresh.Public())
	if err != nil {
		t.Fatal(err)
	}
	certs, err := client.Certificates(t.Context(), map[string]string{"kubelet": key}, map[string]string{pki.KubernetesCA: id})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := pki.ParseCertificate([]byte(certs["kubelet"])); err != nil || c.Subject.CommonName != "system:node:"+node {
		t.Errorf("the certificate is of %v, %v", c.Subject, err)
	}
	_, err = nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{ProviderID: cloud + ":///zone/" + node}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := nodes.Patch(t.Context(), node, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	renew := func() error {
		_, err := client.Certificates(t.Context(), map[string]string{"kubelet": key}, map[string]string{pki.KubernetesCA: id})
		return err
	}
	if err := renew(); !errors.Is(err, bootstrap.ErrReady) {
		t.Errorf("the certificate of a node that is ready is given to who does not hold it: %v", err)
	}
	block, _ := pem.Decode([]byte(certs["kubelet"]))
	held = &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: fresh}
	if err := renew(); err != nil {
		t.Errorf("the machine cannot renew: %v", err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		n, err := nodes.Get(t.Context(), node, metav1.GetOptions{})
		done := err == nil && n.Labels["example.com/disk"] == "fast" && n.Labels["kops.k8s.io/instancegroup"] == "nodes"
		for _, ok := range more {
			done = done && ok()
		}
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the node has the labels %v: %v", n.Labels, err)
		}
	}
}

func TestACloudWithoutProofsIsNamed(t *testing.T) {
	_, err := connect(t.Context(), Options{Platforms: controls.All()}, &controllerconfig.Config{Cloud: "nimbus"}, controller.Stored{}, nil)
	var names []string
	for _, p := range controls.All() {
		names = append(names, p.Name)
	}
	if err == nil || !strings.Contains(err.Error(), `"nimbus"`) || !strings.Contains(err.Error(), strings.Join(names, ", ")) {
		t.Errorf("got %v", err)
	}
}

// A load balancer's connections are logged at debug level; a server's other messages are not.
func TestTheServersOwnLog(t *testing.T) {
	for message, shown := range map[string]bool{
		"http: TLS handshake error from 10.77.0.1:1: EOF":                                 false,
		"http: TLS handshake error from 10.77.0.1:1: read tcp: connection reset by peer":  false,
		"http: TLS handshake error from 10.77.0.11:1: remote error: tls: bad certificate": true,
		"http: panic serving 10.77.0.11:1: EOF":                                           true,
	} {
		for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
			var log bytes.Buffer
			h := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})
			slog.NewLogLogger(quietHandler{h}, slog.LevelWarn).Print(message)
			if got := log.Len() > 0; got != (shown || level == slog.LevelDebug) {
				t.Errorf("%s at the level %s: %q", message, level, &log)
			}
		}
	}
}

// Repair policies are read again: groups come and go while the process runs.
func TestPoliciesOfRepairAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	read := repairs(filepath.Join(dir, "config.yaml"))
	for _, c := range []struct {
		text string
		want int
	}{{"", 0}, {"nodes: {after: 5m}\n", 1}, {"nodes: {after: 5m}\nmore: {after: 5m}\n", 2}} {
		if c.text != "" {
			if err := os.WriteFile(filepath.Join(dir, "repair.yaml"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := read(); err != nil || len(got) != c.want {
			t.Errorf("%q: got %v, %v", c.text, got, err)
		}
	}
}
