package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
)

// Clock provides the client's time.
type Clock interface {
	Now() time.Time
	// Sleep waits for a duration, or returns the context's error if it ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Client sends requests to kops-controller.
type Client struct {
	// Servers are base URLs, such as https://10.0.0.1:3988/; at least one is required.
	Servers []string
	// Transport carries the requests; see NewTLS.
	Transport Transport
	Prover    Prover
	// Listener lets kops-controller call this machine back, if its proof does not suffice; nil: it does.
	Listener *Listener
	Clock    Clock
	// Failed is called after every failed attempt; may be nil.
	Failed func(server string, attempt int, err error)
}

// schedule defines when requests are retried.
type schedule struct {
	maxPause          time.Duration // between two attempts
	attemptsPerServer int           // attempts at one server before the next one is tried
	restart           bool          // waits start short again for the next server
	steps             int           // total number of attempts; 0 means no limit
	patience          time.Duration // total time; 0 means no limit
}

// knock is the longest wait for a server that does not answer at all: retrying
// costs that server nothing, and the machine joins as soon as it is up.
const knock = 2 * time.Second

// NodeConfig requests this machine's configuration. It tries each server eight times, with waits that
// double from one second to fifteen, or to two if there is no answer, and then the next server, for 45
// minutes in total. It returns ErrReady, or an error of class fault.Denied or fault.Permanent, at once
// if retrying is of no use.
func (c *Client) NodeConfig(ctx context.Context) (NodeConfig, error) {
	return c.nodeConfig(ctx, Request{IncludeNodeConfig: true}, schedule{maxPause: 15 * time.Second, attemptsPerServer: 8, restart: true, patience: 45 * time.Minute})
}

// NodeConfigOf requests the configuration with a given hash, for a member that is changed in
// place. It tries each server twice; the machine itself repeats the call.
func (c *Client) NodeConfigOf(ctx context.Context, hash string) (NodeConfig, error) {
	return c.nodeConfig(ctx, Request{IncludeNodeConfig: true, ConfigHash: hash}, schedule{maxPause: 15 * time.Second, attemptsPerServer: 1, steps: 2 * len(c.Servers)})
}

func (c *Client) nodeConfig(ctx context.Context, request Request, s schedule) (NodeConfig, error) {
	r, err := c.request(ctx, request, s)
	if err != nil {
		return NodeConfig{}, err
	}
	if r.NodeConfig == nil || r.NodeConfig.NodeupConfig == "" {
		return NodeConfig{}, fault.New(fault.Permanent, "get the configuration of the machine: the response contains none")
	}
	return *r.NodeConfig, nil
}

// Certificates requests certificates for public keys, both as PEM by name. It tries at most a
// hundred times, the servers in turn, with waits that double from one second to thirty. keypairIDs
// is as in Request. Errors are as for NodeConfig.
func (c *Client) Certificates(ctx context.Context, keys, keypairIDs map[string]string) (map[string]string, error) {
	r, err := c.request(ctx, Request{Certs: keys, KeypairIDs: keypairIDs}, schedule{maxPause: 30 * time.Second, attemptsPerServer: 1, steps: 100})
	if err != nil {
		return nil, err
	}
	for name := range keys {
		if r.Certs[name] == "" {
			return nil, fault.New(fault.Permanent, "request certificates: the response lacks the certificate of %s", name)
		}
	}
	return r.Certs, nil
}

func (c *Client) request(ctx context.Context, r Request, s schedule) (Response, error) {
	if len(c.Servers) == 0 {
		return Response{}, fault.New(fault.Permanent, "no server is given")
	}
	r.APIVersion = APIVersion
	end := c.Clock.Now().Add(s.patience)
	for n := 0; ; n++ {
		server := c.Servers[n/s.attemptsPerServer%len(c.Servers)]
		answer, err := c.send(ctx, server, r)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return Response{}, err
		}
		if c.Failed != nil {
			c.Failed(server, n+1, err)
		}
		wait := s.wait(n)
		if errors.As(err, new(*unansweredError)) {
			wait = min(wait, knock)
		}
		wait = max(wait, fault.After(err))
		switch {
		case errors.Is(err, ErrReady), !fault.Of(err).Retryable():
			return Response{}, err
		case s.steps > 0 && n+1 >= s.steps, s.patience > 0 && c.Clock.Now().Add(wait).After(end):
			return Response{}, fmt.Errorf("no answer after %d attempts, the last: %w", n+1, err)
		}
		if err := c.Clock.Sleep(ctx, wait); err != nil {
			return Response{}, err
		}
	}
}

// wait returns the time between the attempts n and n+1.
func (s schedule) wait(n int) time.Duration {
	if s.restart {
		n %= s.attemptsPerServer
	}
	d := time.Second << min(n, 10)
	return min(d, s.maxPause)
}

// send sends one request to one server.
func (c *Client) send(ctx context.Context, server string, r Request) (Response, error) {
	connection, err := c.Transport.Connect(ctx, server)
	if err != nil {
		return Response{}, fault.Wrap(fault.NotYet, &unansweredError{fmt.Errorf("connect to %s: %w", server, err)}, "")
	}
	defer connection.Close()
	r.ChannelBinding = connection.Binding
	if c.Listener != nil {
		challenge, stop, err := c.Listener.open(ctx)
		if err != nil {
			return Response{}, fault.Wrap(fault.NotYet, fmt.Errorf("listen for kops-controller's call: %w", err), "")
		}
		defer stop()
		r.Challenge = challenge
	}
	body, err := json.Marshal(r)
	if err != nil {
		return Response{}, fmt.Errorf("write the request: %w", err)
	}
	token, err := c.Prover.Prove(ctx, body)
	if err != nil {
		return Response{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(server, "/")+Path, bytes.NewReader(body))
	if err != nil {
		return Response{}, fault.Wrap(fault.Permanent, err, "")
	}
	req.Header.Set("Authorization", token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := connection.HTTP.Do(req)
	if err != nil {
		return Response{}, fault.Wrap(fault.NotYet, &unansweredError{err}, "")
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxResponse))
	if err != nil {
		return Response{}, fault.Wrap(fault.NotYet, fmt.Errorf("read the response of %s: %w", server, err), "")
	}
	if resp.StatusCode != http.StatusOK {
		return Response{}, c.responseError(server, resp, strings.TrimSpace(string(text)))
	}
	var answer Response
	if err := json.Unmarshal(text, &answer); err != nil {
		return Response{}, fault.Wrap(fault.NotYet, fmt.Errorf("read the response of %s: %w", server, err), "")
	}
	return answer, nil
}

// unansweredError is the error of a request that got no answer.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// Trouble is the error of a kops-controller that is running but cannot fulfill a request.
type Trouble struct{ error }

// Unwrap returns the server's error.
func (e *Trouble) Unwrap() error { return e.error }

// retryAfter parses the Retry-After header, in seconds; it ignores waits of more than a minute.
func retryAfter(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, time.Minute)
}

// responseError returns the error for a response other than 200.
func (c *Client) responseError(server string, resp *http.Response, text string) error {
	const longest = 500
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	err := fmt.Errorf("%s answered %d: %s", server, resp.StatusCode, text)
	switch {
	case resp.StatusCode == http.StatusConflict:
		return fmt.Errorf("%s: %w", server, ErrReady)
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusUnauthorized:
		return c.clockRefusal(err, resp.Header.Get("Date"))
	case resp.StatusCode == http.StatusTooManyRequests:
		return &fault.Error{Class: fault.Throttled, After: retryAfter(resp.Header.Get("Retry-After")), Err: err}
	case resp.StatusCode == http.StatusInternalServerError: // which no proxy in front of kops-controller sends in its place
		return fault.Wrap(fault.NotYet, &Trouble{err}, "")
	case resp.StatusCode >= 500:
		return fault.Wrap(fault.NotYet, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// clockRefusal returns a refusal, and names this machine's clock if it is the likely cause, judged by
// the server's Date header. The difference is rounded to minutes: otherwise the error of each
// attempt would be news.
func (c *Client) clockRefusal(err error, date string) error {
	theirs, derr := http.ParseTime(date)
	off := c.Clock.Now().Sub(theirs).Round(time.Minute)
	if derr != nil || off.Abs() <= ClockSkew {
		return fault.Wrap(fault.Denied, err, "")
	}
	which := "ahead"
	if off < 0 {
		which = "behind"
	}
	return fault.Wrap(fault.Denied, fmt.Errorf("the clock of the machine is %s %s: %w", off.Abs(), which, err), SetClock)
}

// SetClock is the remedy for a wrong clock.
const SetClock = "set the machine's clock, or let it reach a time server (NTP, UDP port 123); the machine retries by itself"

// SystemClock returns the machine's clock.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return clock.Sleep(ctx, d) }
