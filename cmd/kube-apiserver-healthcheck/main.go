// Command kube-apiserver-healthcheck asks the API server of its machine for its
// health with a client certificate, so that the kubelet, which has none, can ask
// too even where anonymous requests are refused.
//
//	kube-apiserver-healthcheck --ca-cert=FILE --client-cert=FILE --client-key=FILE
//
// It passes on /livez, /readyz and /healthz and nothing else, and answers for
// itself at /.kube-apiserver-healthcheck/healthz.
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

	"kops.local/kops/internal/names"
)

// shutdownTime is what requests in flight get when the program is told to end.
const shutdownTime = 2 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c credentials
	flag.StringVar(&c.ca, "ca-cert", "", "file of the authorities that sign the API server's certificate")
	flag.StringVar(&c.cert, "client-cert", "", "file of the certificate to ask with")
	flag.StringVar(&c.key, "client-key", "", "file of its key")
	listen := flag.String("listen", fmt.Sprintf(":%d", names.APIHealthPort), "address to answer at, without TLS")
	port := flag.Int("secure-port", 443, "port of the API server on 127.0.0.1")
	flag.Parse()
	if c.ca == "" || c.cert == "" || c.key == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: kube-apiserver-healthcheck --ca-cert=FILE --client-cert=FILE --client-key=FILE [--listen=ADDRESS] [--secure-port=PORT]")
		os.Exit(1)
	}
	target := net.JoinHostPort("127.0.0.1", fmt.Sprint(*port))
	if err := serve(ctx, *listen, handler(target, &asker{files: c})); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve answers until ctx is done.
func serve(ctx context.Context, address string, h http.Handler) error {
	s := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
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
