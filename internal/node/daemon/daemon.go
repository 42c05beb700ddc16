// Package daemon is what the programs of a control plane have in common: how
// they reach the store and the cluster, how they log, and how they end.
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

	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/open"
	"kops.local/kops/internal/store/s3/sdkchain"
	"kops.local/kops/internal/store/web"
)

// Stores are the stores that a control plane can read, as the environment says. keys returns the
// keys of the S3 server that the environment names without keys; nil: there are no others. The
// credentials of last resort are the machine's role.
func Stores(env func(string) string, client *http.Client, keys open.Account) store.Backends {
	return open.Backends(open.Options{Env: env, HTTP: client, Direct: web.Direct(), Keys: keys, Account: sdkchain.Credentials{}})
}

// Cluster says how to reach the API server: as a kubeconfig says, or, when no
// path is given, with the service account of the pod.
func Cluster(kubeconfig, program, version string) (*rest.Config, error) {
	var c *rest.Config
	var err error
	if kubeconfig == "" {
		c, err = rest.InClusterConfig()
	} else {
		c, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find out how to reach the cluster: %w", err)
	}
	c.UserAgent = program + "/" + version
	c.QPS, c.Burst = 20, 50
	return c, nil
}

// Logger writes lines; a verbosity of 4 or more shows details.
func Logger(w io.Writer, verbosity int) *slog.Logger {
	level := slog.LevelInfo
	if verbosity >= 4 {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// Serve answers requests until the context ends, and lets those that are under
// way come to their end. With a TLSConfig, which must hold a certificate, it
// speaks TLS. Connections are bounded in number, in all and from each address.
func Serve(ctx context.Context, s *http.Server) error {
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 10*time.Second, 30*time.Second, 60*time.Second, 2*time.Minute
	s.MaxHeaderBytes = 64 << 10
	open, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	listener := newBounded(open, mostConnections, mostOfAddress)
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
