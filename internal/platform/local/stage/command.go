package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"kops.local/kops/internal/platform/local/site"
)

// hostTrustFiles returns the files in which Linux distributions list trusted authorities.
func hostTrustFiles() []string {
	return []string{trustFile, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}
}

const resolvConf = "/etc/resolv.conf"

// userTrust and userResolver are files that a user's programs see in place of the host's.
func (s *Stage) userTrust() string    { return s.site.Path("trusted.pem") }
func (s *Stage) userResolver() string { return s.site.Path("resolv.conf") }

// AuthorityFile returns the path of the authority's certificate, as PEM.
func (s *Stage) AuthorityFile() string { return s.site.Path("authority.pem") }

// writeUserFiles writes what a user's programs need.
func (s *Stage) writeUserFiles() error {
	trusted := s.machineTrust
	for _, file := range hostTrustFiles() {
		data, err := os.ReadFile(file)
		if err == nil {
			trusted = s.trust.withAuthority(data)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read which authorities this host trusts: %w", err)
		}
	}
	for file, data := range map[string][]byte{s.userTrust(): trusted, s.AuthorityFile(): s.trust.pem, s.userResolver(): []byte("nameserver " + s.address.String() + "\n")} {
		if err := site.Write(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// userScript runs a program with mounts of its own, which disappear with it. Its arguments
// are pairs of files, of which the second is mounted over the first, then two dashes, and
// the program with its arguments.
const userScript = `while [ "$1" != -- ]; do mount --bind "$2" "$1" || exit; shift 2; done
shift
exec "$@"`

// Command returns a command that runs a program of the user as if the rehearsal were the
// outside world: it resolves the rehearsal's names and trusts its authority. env is the
// environment, NAME=VALUE, to which the necessary variables are added. The command has no
// standard streams except those that the caller sets.
func (s *Stage) Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	words := []string{"--mount", "--propagation", "private", "sh", "-c", userScript, "sh", resolvConf, s.userResolver()}
	for _, file := range hostTrustFiles() {
		if _, err := os.Stat(file); err == nil {
			words = append(words, file, s.userTrust())
		}
	}
	cmd := exec.CommandContext(ctx, "unshare", append(append(words, "--", name), args...)...)
	for _, e := range env {
		// A real proxy does not know the rehearsal.
		if n, _, _ := strings.Cut(e, "="); !strings.HasSuffix(strings.ToLower(n), "_proxy") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	for _, n := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"} {
		cmd.Env = append(cmd.Env, n+"="+s.userTrust())
	}
	if len(s.hashes) > 0 { // kops then takes the files for the publishers'
		cmd.Env = append(cmd.Env, "KOPS_FILE_HASHES="+strings.Join(s.hashes, ","))
	}
	if p := s.play.Load(); p != nil {
		for _, e := range p.Environment {
			name, _, set := strings.Cut(e, "=")
			cmd.Env = slices.DeleteFunc(cmd.Env, func(have string) bool { return strings.HasPrefix(have, name+"=") })
			if set {
				cmd.Env = append(cmd.Env, e)
			}
		}
	}
	return cmd
}
