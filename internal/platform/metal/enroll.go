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

// answerSize is the limit of a machine's output from a script, in bytes.
const answerSize = 1 << 20

// namespace is the namespace of Host objects.
const namespace = "kops-system"

// enroll gets a machine's name, its address and its public key, creating a key if there is none.
func enroll(ctx context.Context, s *platform.Session, e platform.Enrollment) (*api.Host, error) {
	c := s.Client.(*client) //nolint:errcheck // Connect created it
	m, err := c.ssh.Dial(ctx, e.Target)
	if err != nil {
		return nil, err
	}
	defer m.Close() //nolint:errcheck // everything was sent
	out, err := m.Run(ctx, "set -eu; umask 077; root="+ssh.Quote(c.root)+"\n"+enrollScript, nil, answerSize)
	if err != nil {
		return nil, err
	}
	h, err := parse(string(out))
	if err != nil {
		return nil, err
	}
	if err := checkUnique(c.inventory, h); err != nil {
		return nil, err
	}
	h.Spec.InstanceGroup, h.Spec.PodCIDRs = e.Group.Name, e.PodCIDRs
	h.Annotations[api.AnnotationSSH], h.Annotations[api.AnnotationSSHKey] = e.User+"@"+e.Address, m.HostKey()
	return h, nil
}

// parse parses what a machine reports about itself: its name, its address and its public key.
func parse(text string) (*api.Host, error) {
	lines := strings.SplitN(text, "\n", 3)
	if len(lines) < 3 {
		return nil, fmt.Errorf("cannot parse what the machine reports about itself: %.200q", text)
	}
	name, at, key := strings.TrimSpace(lines[0]), strings.TrimSpace(lines[1]), lines[2]
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return nil, fault.Wrap(fault.Permanent, fmt.Errorf("the machine's name is %.200q, which is not a valid node name", name),
			"rename it, using lower-case letters, digits and dashes, for example: hostnamectl set-hostname node1")
	}
	if _, err := netip.ParseAddr(at); err != nil {
		return nil, fmt.Errorf("the machine reports the address %.200q, which is not an IP address", at)
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

// checkUnique rejects a machine whose address belongs to a host of another name.
func checkUnique(inventory []*api.Host, h *api.Host) error {
	for _, other := range inventory {
		if other.Name != h.Name && address(other) == address(h) {
			return fault.Wrap(fault.Conflict, fmt.Errorf("the host %s already has the address %s", other.Name, address(h)),
				"if that machine is gone: kops delete host "+other.Name+" --lost --yes")
		}
	}
	return nil
}
