package joinsuite

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/node/controller/run"
	"kops.local/kops/internal/node/daemon"
	"kops.local/kops/internal/platform/controls"
	"kops.local/kops/internal/platform/nodes"
	"kops.local/kops/internal/test/kubetest"
)

// config returns a client configuration of a machine, from its file system. The API server is elsewhere.
func (s *stage) config(h host, path string) *rest.Config {
	s.Helper()
	file := filepath.Join(h.Root, path)
	loaded, err := clientcmd.LoadFromFile(file)
	if err != nil {
		s.Fatal(err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*loaded, nil).ClientConfig()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range []*string{&config.CertFile, &config.KeyFile, &config.CAFile} {
		if *f != "" {
			*f = filepath.Join(h.Root, *f)
		}
	}
	if config.QPS = -1; s.admin != nil {
		config.Host = s.admin.Host
	}
	return config
}

// kubelet is the client configuration of a kubelet.
const kubelet = "/var/lib/kubelet/kubeconfig"

// nodeName returns the name of the node for which a kubelet has a certificate.
func (s *stage) nodeName(of *rest.Config) string {
	s.Helper()
	text, err := of.CertData, error(nil)
	if of.CertFile != "" {
		text, err = os.ReadFile(of.CertFile)
	}
	if err != nil {
		s.Fatal(err)
	}
	cert, err := pki.ParseCertificate(text)
	if err != nil {
		s.Fatal(err)
	}
	name, is := strings.CutPrefix(cert.Subject.CommonName, "system:node:")
	if !is {
		s.Fatalf("the certificate of a kubelet is of %s", cert.Subject.CommonName)
	}
	return name
}

// buffer is a log.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// startAPIServer starts an API server with the keys of the control plane's own.
func (s *stage) startAPIServer(control host) {
	keys := func(name string) string { return filepath.Join(control.Root, "/srv/kubernetes", name) }
	own := func(name string) string { return keys("kube-apiserver/" + name) }
	s.admin = kubetest.ServeConfig(s, s.config(control, "/var/lib/kubectl/kubeconfig"), "--etcd-servers="+kubetest.Etcd(s), "--client-ca-file="+keys("ca.crt"),
		"--tls-cert-file="+own("server.crt"), "--tls-private-key-file="+own("server.key"), "--service-account-key-file="+own("service-account.pub"),
		"--service-account-signing-key-file="+own("service-account.key"), "--enable-admission-plugins=NodeRestriction",
		"--advertise-address=192.0.2.1") // the sandbox has no route from which it could be inferred
}

// startController starts kops-controller on the control plane, as its add-on's manifest says.
func (s *stage) startController(control host) {
	const folder = "/etc/kubernetes/kops-controller"
	conf, environment := s.manifest()
	if err := errors.Join(os.MkdirAll(folder+"/config", 0o755), os.Symlink(filepath.Join(control.Root, folder), folder+"/pki"),
		os.WriteFile(folder+"/config/config.yaml", []byte(conf), 0o600)); err != nil {
		s.Fatal(err)
	}
	metadata := httptest.NewServer(s.cloud.Metadata(s.w, control.of))
	s.Cleanup(metadata.Close)
	maps.Copy(environment, s.cloud.Elsewhere(metadata.URL))
	environment["NODE_NAME"] = s.nodeName(s.config(control, kubelet))
	for name, value := range environment {
		s.Setenv(name, value)
	}
	log := &buffer{}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run.Controller(ctx, run.Options{Conf: folder + "/config/config.yaml", Kubeconfig: kubetest.Kubeconfig(s, s.admin), Version: "test", Platforms: controls.All(), Machines: nodes.All(),
			Env: os.Getenv, Log: daemon.Logger(log, 0)})
	}()
	s.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			s.Errorf("kops-controller: %v", err)
		}
		if s.Failed() {
			s.Logf("kops-controller, with %v:\n%s", environment, log)
		}
	})
	for { // until it listens
		c, err := net.Dial("tcp", "127.0.0.1:3988")
		if err == nil {
			_ = c.Close() // it was only to know
			return
		}
		select {
		case err := <-ended:
			ended <- nil
			s.Fatalf("kops-controller: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// manifest returns the configuration of kops-controller, and the variables of its container, from the
// manifest that the update has written.
func (s *stage) manifest() (conf string, environment map[string]string) {
	s.Helper()
	environment = map[string]string{}
	text := s.w.Object("addons/kops-controller.addons.k8s.io/k8s-1.16.yaml")
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var settings corev1.ConfigMap
		var daemons appsv1.DaemonSet
		if err := errors.Join(err, yaml.Unmarshal(document, &settings)); err != nil {
			s.Fatal(err)
		}
		switch settings.Kind {
		case "ConfigMap":
			conf = settings.Data["config.yaml"]
		case "DaemonSet":
			if err := yaml.Unmarshal(document, &daemons); err != nil {
				s.Fatal(err)
			}
			for _, v := range daemons.Spec.Template.Spec.Containers[0].Env {
				environment[v.Name] = v.Value
			}
		}
	}
	if conf == "" {
		s.Fatalf("no configuration is in the manifest:\n%s", text)
	}
	return conf, environment
}

// join registers the node of a worker as its kubelet does, and waits until the node has its labels.
func (s *stage) join(worker host) {
	config := s.config(worker, kubelet)
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.nodeName(config)}, Spec: corev1.NodeSpec{ProviderID: s.cloud.ProviderID(worker.of)}}
	if _, err := client.Nodes().Create(s.Context(), node, metav1.CreateOptions{}); err != nil {
		s.Fatalf("the machine %s cannot register its node: %v", worker.of.Name, err)
	}
	for end := time.Now().Add(labelTime); ; time.Sleep(50 * time.Millisecond) {
		n, err := client.Nodes().Get(s.Context(), node.Name, metav1.GetOptions{})
		if err == nil && n.Labels[api.LabelInstanceGroup] == worker.of.Group {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("the node of the group %s has the labels %v, %v", worker.of.Group, n.Labels, err)
		}
	}
}

// labelTime is how long kops-controller may take to label a node.
const labelTime = 20 * time.Second
