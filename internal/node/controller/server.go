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
)

// busy is when a machine asks again whose request was not looked into.
const busy = 5 * time.Second

// NodeState is what a Node has come to.
type NodeState int

// The states of a Node; an absent one may never have existed.
const (
	NodeAbsent NodeState = iota
	NodeNotReady
	NodeReady
)

// Nodes reports the states of the cluster's nodes.
type Nodes interface {
	// State returns what the Node of a name has come to.
	State(ctx context.Context, name string) (NodeState, error)
}

// Configs holds what machines are to become.
type Configs interface {
	// NodeConfig returns the configuration of the machines of a group, or an error of class fault.Gone.
	NodeConfig(ctx context.Context, group string) (bootstrap.NodeConfig, error)
	// Role returns the role of a group, or an error of class fault.Gone.
	Role(ctx context.Context, group string) (api.InstanceGroupRole, error)
}

// Server answers machines that join. It is an http.Handler.
type Server struct {
	Verifier bootstrap.Verifier
	Nodes    Nodes
	Configs  Configs
	// Signers are the authorities that sign, by the keyset's name.
	Signers map[string]*pki.Keyset
	// Trusted are the authorities of which one signed the certificates that kubelets hold now.
	Trusted *x509.CertPool
	// InPlace says that machines are restarted in place: with its kubelet's certificate, a machine
	// may fetch its configuration while its node is ready, whichever configuration it is.
	InPlace bool
	// Gate bounds what is done for those who have proven nothing; nil: nothing does.
	Gate *Gate
	// Allowed are the names of the certificates that are given.
	Allowed []string
	Issuer  pki.Issuer
	Log     *slog.Logger
	// Programs serves what machines fetch before they can prove who they are.
	Programs http.Handler
}

// ServeHTTP answers POST /bootstrap, GET /healthz, and what Programs does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == bootstrap.HealthPath:
		w.WriteHeader(http.StatusOK)
	case s.Programs != nil && strings.HasPrefix(r.URL.Path, "/"+programs.Folder):
		s.Programs.ServeHTTP(w, r)
	case r.URL.Path != bootstrap.Path:
		http.NotFound(w, r)
	case r.Method != http.MethodPost:
		http.Error(w, "only POST is answered", http.StatusBadRequest)
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
	log := s.Log.With("remote", r.RemoteAddr)
	if s.Gate != nil {
		leave, wait := s.Gate.enter(r.RemoteAddr)
		if leave == nil {
			log.Debug("too many requests", "wait", wait)
			s.Gate.refuse(w, wait)
			return
		}
		defer leave()
	}
	id, err := s.Verifier.Verify(r.Context(), bootstrap.Proof{Token: r.Header.Get("Authorization"), Body: body})
	if err == nil {
		log = log.With("node", id.NodeName, "group", id.InstanceGroup)
	}
	var answer bootstrap.Response
	if err == nil {
		answer, err = s.answer(r.Context(), id, body, r.TLS)
	}
	if err != nil {
		s.refuse(w, log, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Warn("the machine did not take the answer", "error", err)
		return
	}
	log.Info("answered", "certificates", len(answer.Certs), "configuration", answer.NodeConfig != nil)
}

// badRequest is an error that lies in the request.
type badRequest struct{ error }

func (b badRequest) Unwrap() error { return b.error }

// storeTrouble is an error of the cluster's store. That the store refuses the controller
// says nothing of the machine that asks.
type storeTrouble struct{ error }

func (s storeTrouble) Unwrap() error { return s.error }

// answer is what a machine gets whose identity is proven.
func (s *Server) answer(ctx context.Context, id bootstrap.Identity, body []byte, conn *tls.ConnectionState) (bootstrap.Response, error) {
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
	if err := s.mayAsk(ctx, id, r, conn); err != nil {
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
			return out, badRequest{fmt.Errorf("the group %q has no configuration of nodes", id.InstanceGroup)}
		case err != nil:
			return out, storeTrouble{err}
		}
		if got := nodeconfig.Hash([]byte(c.NodeupConfig)); r.ConfigHash != "" && got != r.ConfigHash {
			return out, badRequest{fmt.Errorf("the configuration of the group %s has the hash %s, and the machine is to take %s", id.InstanceGroup, got, r.ConfigHash)}
		}
		out.NodeConfig = &c
	}
	return out, nil
}

// checkBinding refuses a request that was made for another connection: to another server, or to
// this one before a restart.
func checkBinding(r bootstrap.Request, conn *tls.ConnectionState) error {
	if r.ChannelBinding == "" {
		return nil // of a machine that knows nothing of it
	}
	if conn == nil {
		return fault.New(fault.Denied, "the request is bound to a connection of TLS, and came by none")
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

// checkGroup refuses machines of groups that do not join here: control plane machines sign for
// themselves, and nobody may join in their name.
func (s *Server) checkGroup(ctx context.Context, id bootstrap.Identity) error {
	role, err := s.Configs.Role(ctx, id.InstanceGroup)
	switch {
	case fault.Is(err, fault.Gone):
		return badRequest{fmt.Errorf("the group %q has no configuration of nodes", id.InstanceGroup)}
	case err != nil:
		return storeTrouble{err}
	case role != api.RoleNode && role != api.RoleAPIServer:
		return fault.New(fault.Denied, "machines of the group %s, whose role is %s, do not join by kops-controller", id.InstanceGroup, role)
	}
	return nil
}

// mayAsk says whether a machine may have what it asks for, as its Node is now. While
// there is a Node, only who holds the certificate of its kubelet may: the platform's
// proof is there for every program of the machine that reaches its network.
func (s *Server) mayAsk(ctx context.Context, id bootstrap.Identity, r bootstrap.Request, conn *tls.ConnectionState) error {
	state, err := s.Nodes.State(ctx, id.NodeName)
	if err != nil {
		return fmt.Errorf("look for the node %s: %w", id.NodeName, err)
	}
	held, inPlace := s.holds(conn, id.NodeName), r.ConfigHash != ""
	switch {
	case state == NodeAbsent && !inPlace, held && (s.InPlace || inPlace || !r.IncludeNodeConfig):
		return nil
	case state == NodeReady && !inPlace:
		return bootstrap.ErrReady
	case !held:
		return fault.New(fault.Denied, "the node %[1]s is there, and the machine does not show the certificate of its kubelet; if the machine has lost its disk, run: kubectl delete node %[1]s", id.NodeName)
	}
	return nil
}

// holds reports whether the sender has the key of a certificate of the node's kubelet.
// It may have ended: a machine can be off for longer than a certificate lives.
func (s *Server) holds(conn *tls.ConnectionState, node string) bool {
	if conn == nil || len(conn.PeerCertificates) == 0 || s.Trusted == nil {
		return false
	}
	c := conn.PeerCertificates[0] // the handshake has shown that the sender has its key
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

// refuse answers with the status of an error. Problems of the controller itself only go to its own
// log.
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
