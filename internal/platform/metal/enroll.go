package metal

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/ssh"
)

//go:embed enroll.sh
var enrollScript string

// answerSize bounds what a machine answers to a script, in bytes.
const answerSize = 1 << 20

// namespace is the namespace of Host objects.
const namespace = "kops-system"

// enroll asks a machine for its name, its address and its public key, which is made
// where there is none.
func enroll(ctx context.Context, s *platform.Session, e platform.Enrollment) (*api.Host, error) {
	c := s.Client.(*client) //nolint:errcheck // Connect made it
	m, err := c.ssh.Dial(ctx, e.Target)
	if err != nil {
		return nil, err
	}
	defer m.Close() //nolint:errcheck // all was said
	out, err := m.Run(ctx, "set -eu; umask 077; root="+ssh.Quote(c.root)+"\n"+enrollScript, nil, answerSize)
	if err != nil {
		return nil, err
	}
	h, err := parse(string(out))
	if err != nil {
		return nil, err
	}
	if err := unique(c.inventory, h); err != nil {
		return nil, err
	}
	h.Spec.InstanceGroup, h.Spec.PodCIDRs = e.Group.Name, e.PodCIDRs
	h.Annotations[api.AnnotationSSH], h.Annotations[api.AnnotationSSHKey] = e.User+"@"+e.Address, m.HostKey()
	return h, nil
}

// parse reads what a machine says of itself: its name, its address, the cluster that it
// belongs to, and its public key.
func parse(text string) (*api.Host, error) {
	lines := strings.SplitN(text, "\n", 3)
	if len(lines) < 3 {
		return nil, fmt.Errorf("the machine says %.200q of itself", text)
	}
	name, at, key := strings.TrimSpace(lines[0]), strings.TrimSpace(lines[1]), lines[2]
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the machine is called %.200q, which cannot be the name of a node", name),
			"name it with small letters, digits and dashes, such as: hostnamectl set-hostname node1")
	}
	if _, err := netip.ParseAddr(at); err != nil {
		return nil, fmt.Errorf("the machine says that its address is %.200q, which is not an IP address", at)
	}
	if _, err := bootstrap.DecodePublicKey(key); err != nil {
		return nil, fmt.Errorf("the machine's own key: %w", err)
	}
	h := &api.Host{}
	h.APIVersion, h.Kind = api.Group+"/"+api.V1Alpha2, api.KindHost
	h.Name, h.Namespace = name, namespace
	h.Annotations = map[string]string{api.AnnotationAddress: at}
	h.Spec.PublicKey = key
	return h, nil
}

// unique refuses a machine that has the address of a host of another name.
func unique(inventory []*api.Host, h *api.Host) error {
	for _, other := range inventory {
		if other.Name != h.Name && address(other) == address(h) {
			return fault.Wrap(fault.Conflict, fmt.Errorf("the host %s has the address %s already", other.Name, address(h)),
				"if that machine is gone: kops delete host "+other.Name+" --lost --yes")
		}
	}
	return nil
}
