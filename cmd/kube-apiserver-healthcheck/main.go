// Command kube-apiserver-healthcheck asks the API server of its machine for its
// health with a client certificate, so that the kubelet, which has none, can ask
// too even where anonymous requests are refused.
//
//	kube-apiserver-healthcheck --ca-cert=FILE --client-cert=FILE --client-key=FILE
//
// It passes on /livez, /readyz and /healthz with the parameters exclude and verbose
// and nothing else, and answers for itself at /.kube-apiserver-healthcheck/healthz.
//
// Who asks proves nothing. So it answers this machine alone, unless --listen names
// another address for a load balancer's checks, and --clients those who make them.
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

// shutdownTime is how long open requests may take when the program is asked to end.
const shutdownTime = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c credentials
	flag.StringVar(&c.ca, "ca-cert", "", "file of the authorities that sign the API server's certificate")
	flag.StringVar(&c.cert, "client-cert", "", "file of the certificate to ask with")
	flag.StringVar(&c.key, "client-key", "", "file of its key")
	listen := flag.String("listen", fmt.Sprintf("127.0.0.1:%d", ports.APIHealth), "address to answer at, without TLS")
	clients := flag.String("clients", "", "comma-separated addresses that are answered besides this machine's own; empty: all that reach --listen")
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
	if err := serve(ctx, *listen, only(allowed, handler(target, &asker{files: c}))); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve answers until ctx is done.
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
