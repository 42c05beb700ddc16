package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// strangerError says that a machine is not known, or not as what it presents.
type strangerError struct {
	key     ssh.PublicKey
	changed bool
}

func (e *strangerError) Error() string {
	says := "its host key is not known"
	if e.changed {
		says = "its host key is another than the one that is known"
	}
	return fmt.Sprintf("%s: it presents %s, %s", says, ssh.FingerprintSHA256(e.key), e.key.Type())
}

func (e *strangerError) remedy() string {
	if e.changed {
		return "if the machine was reinstalled, remove its known host key; otherwise the connection may be intercepted"
	}
	return "compare the fingerprint with what the console of the machine says (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then give it, or add the machine to known_hosts"
}

// known returns what checks the key of a machine, and the algorithms of keys that are
// known of it; none: any.
func (o Options) known(t Target) (ssh.HostKeyCallback, []string, error) {
	switch {
	case t.HostKey != "":
		want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(t.HostKey))
		if err != nil {
			return nil, nil, fmt.Errorf("read the recorded host key: %w", err)
		}
		return func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if string(want.Marshal()) != string(key.Marshal()) {
				return &strangerError{key: key, changed: true}
			}
			return nil
		}, algorithms(want.Type()), nil
	case t.Fingerprint != "":
		return func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if ssh.FingerprintSHA256(key) != t.Fingerprint {
				return &strangerError{key: key, changed: true}
			}
			return nil
		}, []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}, nil
	}
	return o.listed(t)
}

// listed checks by the files of known hosts.
func (o Options) listed(t Target) (ssh.HostKeyCallback, []string, error) {
	files := slices.DeleteFunc(slices.Clone(o.Known), func(file string) bool {
		_, err := os.Stat(file)
		return errors.Is(err, os.ErrNotExist)
	})
	check, err := knownhosts.New(files...)
	if err != nil {
		return nil, nil, fmt.Errorf("read the known hosts: %w", err)
	}
	strange := func(host string, remote net.Addr, key ssh.PublicKey) error {
		err := check(host, remote, key)
		if unknown := (*knownhosts.KeyError)(nil); errors.As(err, &unknown) {
			return &strangerError{key: key, changed: len(unknown.Want) > 0}
		}
		return err
	}
	// The machine is asked for a key of a sort that is known of it.
	var sorts []string
	if wanted := (*knownhosts.KeyError)(nil); errors.As(check(t.Address, nowhere{}, noKey{}), &wanted) {
		for _, k := range wanted.Want {
			sorts = append(sorts, algorithms(k.Key.Type())...)
		}
	}
	return strange, sorts, nil
}

// algorithms are the signatures that a key of a type makes.
func algorithms(key string) []string {
	if key == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{key}
}

// nowhere is an address, and noKey a key, of no machine.
type (
	nowhere struct{}
	noKey   struct{}
)

func (nowhere) Network() string { return "tcp" }
func (nowhere) String() string  { return "0.0.0.0:0" }

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("there is no key") }
