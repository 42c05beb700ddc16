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

// Clock is time as the client sees it.
type Clock interface {
	Now() time.Time
	// Sleep waits, or returns the context's error when it ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

// Client asks kops-controller.
type Client struct {
	// Servers are base URLs, such as https://10.0.0.1:3988/; at least one.
	Servers []string
	// Transport carries the requests; see NewTLS.
	Transport Transport
	Prover    Prover
	Clock     Clock
	// Failed is called with every failed attempt, and may be nil.
	Failed func(server string, attempt int, err error)
}

// schedule says when to ask again.
type schedule struct {
	longest  time.Duration // between two attempts
	turn     int           // attempts at one server before the next is asked
	restart  bool          // the next server is asked with short waits again
	steps    int           // attempts in all; 0 means any number
	patience time.Duration // in all; 0 means any time
}

// knock is the longest wait for a server that nobody answers at: it costs that
// server nothing, and the machine joins as soon as it is there.
const knock = 2 * time.Second

// NodeConfig asks for the configuration of this machine. Each server is asked
// eight times, with waits that double from one second to fifteen, two where
// nobody answers, and then the next, for 45 minutes. It returns ErrReady, or an error of class fault.Denied
// or fault.Permanent at once where another try is of no use.
func (c *Client) NodeConfig(ctx context.Context) (NodeConfig, error) {
	return c.nodeConfig(ctx, Request{IncludeNodeConfig: true}, schedule{longest: 15 * time.Second, turn: 8, restart: true, patience: 45 * time.Minute})
}

// NodeConfigOf asks for the configuration of a hash, for a member that is changed in place. Each
// server is asked twice; the machine itself repeats the call.
func (c *Client) NodeConfigOf(ctx context.Context, hash string) (NodeConfig, error) {
	return c.nodeConfig(ctx, Request{IncludeNodeConfig: true, ConfigHash: hash}, schedule{longest: 15 * time.Second, turn: 1, steps: 2 * len(c.Servers)})
}

func (c *Client) nodeConfig(ctx context.Context, request Request, s schedule) (NodeConfig, error) {
	r, err := c.ask(ctx, request, s)
	if err != nil {
		return NodeConfig{}, err
	}
	if r.NodeConfig == nil || r.NodeConfig.NodeupConfig == "" {
		return NodeConfig{}, fault.New(fault.Permanent, "ask for the configuration of the machine: the answer holds none")
	}
	return *r.NodeConfig, nil
}

// Certificates asks for certificates of public keys, both as PEM by name. It asks at most a
// hundred times, the servers in turn, with waits that double from one second to thirty. keypairIDs
// is Request's. Errors are as for NodeConfig.
func (c *Client) Certificates(ctx context.Context, keys, keypairIDs map[string]string) (map[string]string, error) {
	r, err := c.ask(ctx, Request{Certs: keys, KeypairIDs: keypairIDs}, schedule{longest: 30 * time.Second, turn: 1, steps: 100})
	if err != nil {
		return nil, err
	}
	for name := range keys {
		if r.Certs[name] == "" {
			return nil, fault.New(fault.Permanent, "ask for certificates: the answer lacks the certificate of %s", name)
		}
	}
	return r.Certs, nil
}

func (c *Client) ask(ctx context.Context, r Request, s schedule) (Response, error) {
	if len(c.Servers) == 0 {
		return Response{}, fault.New(fault.Permanent, "no server is named")
	}
	r.APIVersion = APIVersion
	end := c.Clock.Now().Add(s.patience)
	for n := 0; ; n++ {
		server := c.Servers[n/s.turn%len(c.Servers)]
		answer, err := c.once(ctx, server, r)
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
		if errors.As(err, new(*unanswered)) {
			wait = min(wait, knock)
		}
		if busy := (*busyError)(nil); errors.As(err, &busy) {
			wait = max(wait, busy.wait)
		}
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

// wait is the time between the attempts n and n+1.
func (s schedule) wait(n int) time.Duration {
	if s.restart {
		n %= s.turn
	}
	d := time.Second << min(n, 10)
	return min(d, s.longest)
}

// once asks one server once.
func (c *Client) once(ctx context.Context, server string, r Request) (Response, error) {
	connection, err := c.Transport.Connect(ctx, server)
	if err != nil {
		return Response{}, fault.Wrap(fault.NotYet, &unanswered{fmt.Errorf("connect to %s: %w", server, err)}, "")
	}
	defer connection.Close()
	r.ChannelBinding = connection.Binding
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
		return Response{}, fault.Wrap(fault.NotYet, &unanswered{err}, "")
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxResponse))
	if err != nil {
		return Response{}, fault.Wrap(fault.NotYet, fmt.Errorf("read the answer of %s: %w", server, err), "")
	}
	if resp.StatusCode != http.StatusOK {
		return Response{}, c.refusal(server, resp, strings.TrimSpace(string(text)))
	}
	var answer Response
	if err := json.Unmarshal(text, &answer); err != nil {
		return Response{}, fault.Wrap(fault.NotYet, fmt.Errorf("read the answer of %s: %w", server, err), "")
	}
	return answer, nil
}

// unanswered is the error of a request that nobody answered.
type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

// Trouble is the error of a kops-controller that is there and cannot do what it is asked.
type Trouble struct{ error }

// Unwrap returns what it said.
func (e *Trouble) Unwrap() error { return e.error }

// busyError is the refusal of a server that has too much to do.
type busyError struct {
	error
	wait time.Duration
}

func (e *busyError) Unwrap() error { return e.error }

// retryAfter reads the header of that name, in seconds; a wait beyond a minute is ignored.
func retryAfter(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, time.Minute)
}

// refusal is the error of an answer other than 200.
func (c *Client) refusal(server string, resp *http.Response, text string) error {
	const longest = 500
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	err := fmt.Errorf("%s answered %d: %s", server, resp.StatusCode, text)
	switch {
	case resp.StatusCode == http.StatusConflict:
		return fmt.Errorf("%s: %w", server, ErrReady)
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusUnauthorized:
		return c.denied(err, resp.Header.Get("Date"))
	case resp.StatusCode == http.StatusTooManyRequests:
		return fault.Wrap(fault.Throttled, &busyError{err, retryAfter(resp.Header.Get("Retry-After"))}, "")
	case resp.StatusCode == http.StatusInternalServerError: // which nothing before kops-controller says in its place
		return fault.Wrap(fault.NotYet, &Trouble{err}, "")
	case resp.StatusCode >= 500:
		return fault.Wrap(fault.NotYet, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// denied returns a refusal, and names this machine's clock if it is the likely cause, judged by
// the server's Date header. The difference is rounded to minutes: otherwise the error of each try
// would be news.
func (c *Client) denied(err error, date string) error {
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

// SetClock is what helps where a clock is wrong.
const SetClock = "set the machine's clock, or let it reach a time server (NTP, UDP port 123); the machine retries by itself"

// SystemClock is the clock of the machine.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return clock.Sleep(ctx, d) }
