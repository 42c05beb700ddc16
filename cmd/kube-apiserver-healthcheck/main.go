// Command kube-apiserver-healthcheck queries the health of its machine's API server
// with a client certificate, so that the kubelet, which does not have one, can do so
// even if anonymous requests are refused.
//
//	kube-apiserver-healthcheck --ca-cert=FILE --client-cert=FILE --client-key=FILE
//
// It forwards /livez, /readyz and /healthz with the parameters exclude and verbose
// and nothing else, and reports its own health at /.kube-apiserver-healthcheck/healthz.
//
// Its clients are not authenticated. So it only serves this machine, unless --listen sets
// another address for a load balancer's checks, and --clients the addresses of their senders.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kops.local/kops/internal/contract/ports"
)

// shutdownTime is how long pending requests may take after the program is asked to exit.
const shutdownTime = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c credentials
	flag.StringVar(&c.ca, "ca-cert", "", "file with the certificate authorities of the API server")
	flag.StringVar(&c.cert, "client-cert", "", "file with the client certificate")
	flag.StringVar(&c.key, "client-key", "", "file with the key of the client certificate")
	listen := flag.String("listen", fmt.Sprintf("127.0.0.1:%d", ports.APIHealth), "address to listen on, without TLS")
	clients := flag.String("clients", "", "comma-separated addresses of clients to serve in addition to this machine's own; empty: all")
	port := flag.Int("secure-port", 443, "port of the API server on 127.0.0.1")
	flag.Parse()
	allowed, err := addresses(*clients)
	if err != nil || c.ca == "" || c.cert == "" || c.key == "" || flag.NArg() > 0 {
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
		fmt.Fprintln(os.Stderr, "usage: kube-apiserver-healthcheck --ca-cert=FILE --client-cert=FILE --client-key=FILE [--listen=ADDRESS] [--clients=ADDRESSES] [--secure-port=PORT]")
		os.Exit(1)
	}
	target := net.JoinHostPort("127.0.0.1", fmt.Sprint(*port))
	if err := serve(ctx, *listen, allowOnly(allowed, handler(target, &apiClient{files: c}))); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve serves until ctx is done.
func serve(ctx context.Context, address string, h http.Handler) error {
	s := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	failed := make(chan error, 1)
	go func() { failed <- s.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	}
}
