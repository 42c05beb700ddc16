// Package daemon contains what the programs of a control plane have in common: how
// they reach the store and the cluster, how they log, and how they stop.
//
// It must not know what any of them does.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster returns the client configuration for the API server: from a kubeconfig,
// or, if no path is given, from the pod's service account.
func Cluster(kubeconfig, program, version string) (*rest.Config, error) {
	var c *rest.Config
	var err error
	if kubeconfig == "" {
		c, err = rest.InClusterConfig()
	} else {
		c, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find out how to connect to the cluster: %w", err)
	}
	c.UserAgent = program + "/" + version
	c.QPS, c.Burst = 20, 50
	return c, nil
}

// Logger returns a logger that writes lines; a verbosity of 4 or more includes debug messages.
func Logger(w io.Writer, verbosity int) *slog.Logger {
	level := slog.LevelInfo
	if verbosity >= 4 {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// Serve answers requests until the context ends, and lets those in progress
// finish. With a TLSConfig, which must contain a certificate, it uses TLS. The
// number of connections is limited, in total and per sender.
func Serve(ctx context.Context, s *http.Server) error {
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 10*time.Second, 30*time.Second, 60*time.Second, 2*time.Minute
	s.MaxHeaderBytes = 64 << 10
	open, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	listener := newBounded(open, maxConnections, maxPerSender)
	ended := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			ended <- s.ServeTLS(listener, "", "")
			return
		}
		ended <- s.Serve(listener)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", s.Addr, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = s.Shutdown(grace)
	if serving := <-ended; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}
