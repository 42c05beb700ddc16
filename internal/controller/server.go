package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"kops.local/kops/internal/bootstrap"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/pki"
)

// Nodes tells of the cluster's nodes.
type Nodes interface {
	// Ready reports whether a Node of the name exists and is ready; an absent one is not.
	Ready(ctx context.Context, name string) (bool, error)
}

// Configs holds what machines are to become.
type Configs interface {
	// NodeConfig returns the configuration of the machines of a group, or an error of class fault.Gone.
	NodeConfig(ctx context.Context, group string) (bootstrap.NodeConfig, error)
}

// Server answers machines that join. It is an http.Handler.
type Server struct {
	Verifier bootstrap.Verifier
	Nodes    Nodes
	Configs  Configs
	// Signers are the authorities that sign, by the keyset's name.
	Signers map[string]*pki.Keyset
	// Allowed are the names of the certificates that are given.
	Allowed []string
	Issuer  pki.Issuer
	Log     *slog.Logger
}

// ServeHTTP answers POST /bootstrap and GET /healthz, and nothing else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == bootstrap.HealthPath:
		w.WriteHeader(http.StatusOK)
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
	proof := bootstrap.Proof{Token: r.Header.Get("Authorization"), Body: body}
	log := s.Log.With("remote", r.RemoteAddr)
	id, err := s.Verifier.Verify(r.Context(), proof)
	if err == nil {
		log = log.With("node", id.NodeName, "group", id.InstanceGroup)
	}
	var answer bootstrap.Response
	if err == nil {
		answer, err = s.answer(r.Context(), id, body)
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

// answer is what a machine gets whose identity is proven.
func (s *Server) answer(ctx context.Context, id bootstrap.Identity, body []byte) (bootstrap.Response, error) {
	var out bootstrap.Response
	r, err := bootstrap.DecodeRequest(body)
	if err != nil {
		return out, badRequest{err}
	}
	ready, err := s.Nodes.Ready(ctx, id.NodeName)
	if err != nil {
		return out, fmt.Errorf("look for the node %s: %w", id.NodeName, err)
	}
	if ready {
		return out, bootstrap.ErrReady
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
			return out, err
		}
		out.NodeConfig = &c
	}
	return out, nil
}

// refuse answers with the status of an error. What is wrong with the controller
// itself is for its own log only.
func (s *Server) refuse(w http.ResponseWriter, log *slog.Logger, err error) {
	status, text := http.StatusInternalServerError, "kops-controller cannot answer now; its log tells why"
	var bad badRequest
	switch {
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
