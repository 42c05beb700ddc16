package controller

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/nodeconfig"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/bootstrap"
	"kops.local/kops/internal/node/senders"
)

// busy is when a machine should repeat a request that was not processed.
const busy = 5 * time.Second

// NodeState is the state of a Node.
type NodeState int

// The states of a Node; an absent one may never have existed.
const (
	NodeAbsent NodeState = iota
	NodeNotReady
	NodeReady
)

// Nodes reports the states of the cluster's nodes.
type Nodes interface {
	// State returns the state of the Node with a name.
	State(ctx context.Context, name string) (NodeState, error)
}

// Configs provides the machines' configurations.
type Configs interface {
	// NodeConfig returns the configuration for the machines of a group, or an error of class fault.Gone.
	NodeConfig(ctx context.Context, group string) (bootstrap.NodeConfig, error)
	// Role returns the role of a group, or an error of class fault.Gone.
	Role(ctx context.Context, group string) (api.InstanceGroupRole, error)
}

// Server answers joining machines. It is an http.Handler.
type Server struct {
	Verifier bootstrap.Verifier
	Nodes    Nodes
	Configs  Configs
	// Signers are the signing authorities, by keyset name.
	Signers map[string]*pki.Keyset
	// Trusted are the authorities that may have signed the certificates that kubelets hold now.
	Trusted *x509.CertPool
	// InPlace is set if machines are restarted in place: with its kubelet's certificate, a machine
	// may then fetch its configuration while its node is ready, whichever configuration it is.
	InPlace bool
	// Gate limits what is done for senders that have proven nothing; nil means no limit.
	Gate *Gate
	// Allowed are the names of the certificates that are issued.
	Allowed []string
	Issuer  pki.Issuer
	Log     *slog.Logger
	// Programs serves what machines fetch before they can prove their identity.
	Programs http.Handler
}

// ServeHTTP answers POST /bootstrap, GET /healthz, and the paths of Programs.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == bootstrap.HealthPath:
		w.WriteHeader(http.StatusOK)
	case s.Programs != nil && strings.HasPrefix(r.URL.Path, "/"+programs.Folder):
		s.Programs.ServeHTTP(w, r)
	case r.URL.Path != bootstrap.Path:
		http.NotFound(w, r)
	case r.Method != http.MethodPost:
		http.Error(w, "only POST is supported", http.StatusBadRequest)
	default:
		s.serveBootstrap(w, r)
	}
}

func (s *Server) serveBootstrap(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bootstrap.MaxRequest))
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	log, leave := s.Log.With("remote", r.RemoteAddr), func() {}
	if s.Gate != nil {
		var wait time.Duration
		if leave, wait = s.Gate.enter(r.RemoteAddr); leave == nil {
			log.Debug("too many requests", "wait", wait)
			s.Gate.refuse(w, wait)
			return
		}
		defer leave() // if there is a panic
	}
	id, err := s.Verifier.Verify(r.Context(), bootstrap.Proof{Token: r.Header.Get("Authorization"), Body: body, Sender: senders.Network(r.RemoteAddr)})
	if err == nil {
		log = log.With("node", id.NodeName, "group", id.InstanceGroup)
	}
	var answer bootstrap.Response
	if err == nil {
		answer, err = s.respond(r.Context(), id, body, r.TLS)
	}
	leave()
	if err != nil {
		s.refuse(w, log, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Warn("cannot send the response to the machine", "error", err)
		return
	}
	log.Info("answered", "certificates", len(answer.Certs), "configuration", answer.NodeConfig != nil)
}

// badRequest is an error caused by the request.
type badRequest struct{ error }

func (b badRequest) Unwrap() error { return b.error }

// storeTrouble is an error of the cluster's store. That the store denies the controller
// access does not mean that the requesting machine is denied.
type storeTrouble struct{ error }

func (s storeTrouble) Unwrap() error { return s.error }

// respond returns the response to a machine whose identity is proven.
func (s *Server) respond(ctx context.Context, id bootstrap.Identity, body []byte, conn *tls.ConnectionState) (bootstrap.Response, error) {
	var out bootstrap.Response
	r, err := bootstrap.DecodeRequest(body)
	if err != nil {
		return out, badRequest{err}
	}
	if err := checkBinding(r, conn); err != nil {
		return out, err
	}
	if err := s.checkGroup(ctx, id); err != nil {
		return out, err
	}
	if err := s.checkNode(ctx, id, r, conn); err != nil {
		return out, err
	}
	if len(r.Certs) > 0 {
		if out.Certs, err = s.issue(id, r); err != nil {
			return out, badRequest{err}
		}
	}
	if r.IncludeNodeConfig {
		c, err := s.Configs.NodeConfig(ctx, id.InstanceGroup)
		switch {
		case fault.Is(err, fault.Gone):
			return out, badRequest{fmt.Errorf("the group %q has no node configuration", id.InstanceGroup)}
		case err != nil:
			return out, storeTrouble{err}
		}
		if got := nodeconfig.Hash([]byte(c.NodeupConfig)); r.ConfigHash != "" && got != r.ConfigHash {
			return out, badRequest{fmt.Errorf("the configuration of the group %s has the hash %s, but the machine wants %s", id.InstanceGroup, got, r.ConfigHash)}
		}
		out.NodeConfig = &c
	}
	return out, nil
}

// checkBinding rejects a request that was made for another connection: to another server, or to
// this one before a restart.
func checkBinding(r bootstrap.Request, conn *tls.ConnectionState) error {
	if r.ChannelBinding == "" {
		return nil // from a machine that does not support it
	}
	if conn == nil {
		return fault.New(fault.Denied, "the request is bound to a TLS connection, but was sent without TLS")
	}
	own, err := bootstrap.ChannelBinding(*conn)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(own), []byte(r.ChannelBinding)) != 1 {
		return fault.New(fault.Denied, "the request was made for another connection")
	}
	return nil
}

// checkGroup rejects machines of groups that do not join here: control-plane machines sign for
// themselves, and nobody may join under their name.
func (s *Server) checkGroup(ctx context.Context, id bootstrap.Identity) error {
	role, err := s.Configs.Role(ctx, id.InstanceGroup)
	switch {
	case fault.Is(err, fault.Gone):
		return badRequest{fmt.Errorf("the group %q has no node configuration", id.InstanceGroup)}
	case err != nil:
		return storeTrouble{err}
	case role != api.RoleNode && role != api.RoleAPIServer:
		return fault.New(fault.Denied, "machines of the group %s, whose role is %s, do not join through kops-controller", id.InstanceGroup, role)
	}
	return nil
}

// checkNode returns an error unless a machine may have what it requests, given the
// current state of its Node. While the Node exists, only the holder of its kubelet's
// certificate may: every program on the machine that reaches its network can produce
// the platform's proof.
func (s *Server) checkNode(ctx context.Context, id bootstrap.Identity, r bootstrap.Request, conn *tls.ConnectionState) error {
	state, err := s.Nodes.State(ctx, id.NodeName)
	if err != nil {
		return fmt.Errorf("look for the node %s: %w", id.NodeName, err)
	}
	held, inPlace := s.hasCertificate(conn, id.NodeName), r.ConfigHash != ""
	switch {
	case state == NodeAbsent && !inPlace, held && (s.InPlace || inPlace || !r.IncludeNodeConfig):
		return nil
	case state == NodeReady && !inPlace:
		return bootstrap.ErrReady
	case !held:
		return fault.New(fault.Denied, "the node %[1]s exists, but the machine does not present the certificate of its kubelet; if the machine has lost its disk, run: kubectl delete node %[1]s", id.NodeName)
	}
	return nil
}

// hasCertificate reports whether the sender has the key of a certificate of the node's kubelet.
// The certificate may have expired: a machine can be off for longer than its
// certificate is valid.
func (s *Server) hasCertificate(conn *tls.ConnectionState, node string) bool {
	if conn == nil || len(conn.PeerCertificates) == 0 || s.Trusted == nil {
		return false
	}
	c := conn.PeerCertificates[0] // the handshake has proven that the sender has its key
	if c.Subject.CommonName != nodeUser+node || !slices.Equal(c.Subject.Organization, []string{nodeGroup}) {
		return false
	}
	at := s.Issuer.Now()
	if at.After(c.NotAfter) {
		at = c.NotAfter
	}
	_, err := c.Verify(x509.VerifyOptions{Roots: s.Trusted, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return err == nil
}

// refuse answers with the status of an error. Problems of the controller itself are only logged.
func (s *Server) refuse(w http.ResponseWriter, log *slog.Logger, err error) {
	status, text := http.StatusInternalServerError, "kops-controller cannot answer now; see its log"
	var bad badRequest
	switch {
	case errors.As(err, new(storeTrouble)):
		text = "kops-controller cannot read the cluster's store; see its log"
	case errors.Is(err, bootstrap.ErrBusy):
		w.Header().Set("Retry-After", strconv.Itoa(int(busy.Seconds())))
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	case errors.Is(err, bootstrap.ErrReady):
		status, text = http.StatusConflict, err.Error()
	case fault.Is(err, fault.Denied):
		status, text = http.StatusForbidden, err.Error()
	case errors.As(err, &bad):
		status, text = http.StatusBadRequest, err.Error()
	}
	log.Warn("refused", "status", status, "error", err)
	http.Error(w, text, status)
}
