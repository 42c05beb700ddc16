package ssh_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/platform/ssh/sshtest"
)

func TestCommandsRunAsTheyAreWritten(t *testing.T) {
	s := sshtest.Start(t, "", "GREETING=it's me")
	o := ssh.Options{Keys: []string{s.Client, "/does/not/exist"}}
	m, err := o.Dial(t.Context(), ssh.Target{Address: s.Address, User: "root", Fingerprint: gossh.FingerprintSHA256(s.HostKey)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // the test is over
	out, err := m.Run(t.Context(), `echo "$GREETING"; cat`, strings.NewReader("and in"), 1<<10)
	if err != nil || string(out) != "it's me\nand in" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := m.Run(t.Context(), "echo no >&2; echo way >&2; exit 3", nil, 1<<10); err == nil || !strings.Contains(err.Error(), "no; way") || !strings.Contains(err.Error(), "3") {
		t.Errorf("a command that fails: %v", err)
	}
	again, err := o.Dial(t.Context(), ssh.Target{Address: s.Address, User: "root", HostKey: m.HostKey()})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

// TestAMachineThatNeverStopsIsStopped checks that a script's output and messages are bounded.
func TestAMachineThatNeverStopsIsStopped(t *testing.T) {
	s := sshtest.Start(t, "")
	m, err := ssh.Options{Keys: []string{s.Client}}.Dial(t.Context(), ssh.Target{Address: s.Address, User: "root", Fingerprint: gossh.FingerprintSHA256(s.HostKey)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // the test is over
	out, err := m.Run(t.Context(), "yes much", nil, 10_000)
	if len(out) != 10_000 || err == nil || !strings.Contains(err.Error(), "more than 10000 bytes") {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if _, err := m.Run(t.Context(), "yes much | head -c 5000000 >&2; exit 3", nil, 10); err == nil || len(err.Error()) > 400 {
		t.Errorf("messages: %.500v", err)
	}
	if out, err := m.Run(t.Context(), "printf 1234567890", nil, 10); err != nil || len(out) != 10 {
		t.Errorf("as much as is allowed: %q, %v", out, err)
	}
}

func TestOnlyKnownHostKeysAreAccepted(t *testing.T) {
	s, other := sshtest.Start(t, ""), sshtest.Start(t, "")
	known := filepath.Join(t.TempDir(), "known_hosts")
	write := func(keys ...gossh.PublicKey) {
		var lines []string
		for _, k := range keys {
			lines = append(lines, knownhosts.Line([]string{s.Address}, k))
		}
		if err := os.WriteFile(known, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := ssh.Options{Keys: []string{s.Client}, Known: []string{known, known + "2"}}
	target := ssh.Target{Address: s.Address, User: "root"}
	dial := func(says string) {
		t.Helper()
		m, err := o.Dial(t.Context(), target)
		if says == "" {
			if err != nil {
				t.Error(err)
			} else {
				_ = m.Close()
			}
			return
		}
		if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), gossh.FingerprintSHA256(s.HostKey)) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	dial("its host key is not known")
	write(other.HostKey)
	dial("differs from the known one")
	write(s.HostKey)
	dial("")
	target.Fingerprint = gossh.FingerprintSHA256(other.HostKey)
	dial("differs from the known one")
	target.HostKey = string(gossh.MarshalAuthorizedKey(other.HostKey))
	dial("differs from the known one")
}

func TestAMissingKeyIsReported(t *testing.T) {
	s, other := sshtest.Start(t, ""), sshtest.Start(t, "")
	target := ssh.Target{Address: s.Address, User: "root", HostKey: string(gossh.MarshalAuthorizedKey(s.HostKey))}
	if _, err := (ssh.Options{}).Dial(t.Context(), target); !fault.Is(err, fault.Permanent) || !strings.Contains(fault.Remedy(err), "ssh-add") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := (ssh.Options{Keys: []string{other.Client}}).Dial(t.Context(), target); !fault.Is(err, fault.Denied) {
		t.Errorf("with another key: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target.Address = l.Addr().String()
	_ = l.Close()
	if _, err := (ssh.Options{Keys: []string{s.Client}}).Dial(t.Context(), target); !fault.Is(err, fault.NotYet) {
		t.Errorf("of a machine that is not there: %v", err)
	}
}

func TestTheAgentIsAsked(t *testing.T) {
	s := sshtest.Start(t, "")
	text, err := os.ReadFile(s.Client)
	if err != nil {
		t.Fatal(err)
	}
	key, err := gossh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the test is over
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(ring, conn) //nolint:errcheck // it ends with the connection
		}
	}()
	m, err := ssh.Options{Agent: socket}.Dial(t.Context(), ssh.Target{Address: s.Address, User: "root", HostKey: string(gossh.MarshalAuthorizedKey(s.HostKey))})
	if err != nil {
		t.Fatal(err)
	}
	_ = m.Close()
}
