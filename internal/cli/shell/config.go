package shell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"

	"kops.local/kops"
	"kops.local/kops/internal/clouds"
	awscloud "kops.local/kops/internal/clouds/aws"
	localcloud "kops.local/kops/internal/clouds/local"
	"kops.local/kops/internal/clusterstore/process"
	"kops.local/kops/internal/complete"
	"kops.local/kops/internal/fault"
	"kops.local/kops/internal/model"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/s3"
)

// clientConfig is the world of the client, as the environment describes it.
func (a *App) clientConfig(state string) kops.Config {
	env := map[string]string{}
	for _, name := range model.KnownVariables() {
		if v := a.Env(name); v != "" {
			env[name] = v
		}
	}
	client := a.httpClient()
	aws := awscloud.Options{Endpoint: a.Env("AWS_ENDPOINT_URL"), RoleARN: a.Env("KOPS_AWS_ROLE_ARN"), Region: a.region(),
		Credentials: a.awsCredentials(), HTTP: client, Version: a.Version}
	local := localcloud.Options{Root: absolute(a.Env("KOPS_LOCAL_ROOT")), Cache: absolute(a.Cache), Bundle: a.Bundle(), Keeper: []string{a.Program, "local", "keep"}}
	if a.Verbosity > 0 {
		local.Log = a.Err
	}
	return kops.Config{
		State:       state,
		Backends:    store.Backends{store.Folders(), s3.Backend(a.s3Config(client))},
		Clouds:      append(slices.Clone(a.Clouds), clouds.All(clouds.Options{AWS: aws, Local: local})...),
		Cache:       a.Cache,
		Offline:     a.Offline,
		Version:     a.Version,
		RunObsolete: a.Env("KOPS_RUN_OBSOLETE_VERSION") != "",
		RunTooNew:   a.Env("KOPS_RUN_TOO_NEW_VERSION") != "",
		Features:    a.Features(),
		KeySize:     atoi(a.Env("KOPS_RSA_PRIVATE_KEY_SIZE")),
		Environment: env,
		FilesRegion: a.Env("S3_REGION"),
		IsSet:       func(name string) bool { return a.Env(name) != "" },
		Now:         a.Now,
		Sleep:       a.Sleep,
		Random:      rand.Reader,
		HTTP:        client,
		Holder:      kops.Holder{User: a.User, Host: a.Host, PID: a.PID, Command: a.Command, Process: process.Self()},
		Gone:        process.Gone,
		Log:         a.log(),
		Phase:       a.Phase,
		Leased:      a.leased,
		Watched:     a.watched,
	}
}

// Bundle is the folder of files and images that machines of this host fetch; ""
// when none is named and the user has no cache folder.
func (a *App) Bundle() string {
	dir := a.Env("KOPS_BUNDLE")
	if dir == "" && a.Cache != "" {
		dir = filepath.Join(a.Cache, "bundle")
	}
	return absolute(dir)
}

// absolute is a folder as processes that run in another one must name it; ""
// stays so.
func absolute(dir string) string {
	if dir == "" {
		return ""
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir // the current folder is gone: the folder is told as it was named
}

// Features are the switches of KOPS_FEATURE_FLAGS.
func (a *App) Features() complete.Features {
	return complete.ParseFeatures(a.Env("KOPS_FEATURE_FLAGS"))
}

// httpClient keeps connections to a server open, as many as are used at once.
func (a *App) httpClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	t.ResponseHeaderTimeout = 2 * time.Minute
	if a.Verbosity < requests {
		return &http.Client{Transport: t}
	}
	return &http.Client{Transport: teller{t, a}}
}

// requests is the verbosity from which each request is told.
const requests = 2

// teller tells of each request; what it holds is not shown.
type teller struct {
	http.RoundTripper
	app *App
}

// RoundTrip implements http.RoundTripper.
func (t teller) RoundTrip(r *http.Request) (*http.Response, error) {
	begun := t.app.Now()
	resp, err := t.RoundTripper.RoundTrip(r)
	result := ""
	if err != nil {
		result = err.Error()
	} else {
		result = resp.Status
	}
	t.app.Notef("%s %s://%s%s: %s (%s)\n", r.Method, r.URL.Scheme, r.URL.Host, r.URL.Path, result, t.app.Now().Sub(begun).Round(time.Millisecond))
	return resp, err
}

// log is where the library tells details, or nil when nobody wants them.
func (a *App) log() *slog.Logger {
	if a.Verbosity < requests {
		return nil
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (a *App) region() string {
	if r := a.Env("AWS_REGION"); r != "" {
		return r
	}
	return a.Env("AWS_DEFAULT_REGION")
}

// s3Config says how buckets are reached: as S3_ENDPOINT says, or as AWS itself.
func (a *App) s3Config(client *http.Client) s3.Config {
	c := s3.Config{Endpoint: a.Env("S3_ENDPOINT"), Region: a.Env("S3_REGION"), ACL: strings.TrimSpace(a.Env("KOPS_STATE_S3_ACL")), HTTPClient: client}
	if c.Endpoint != "" {
		c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, fault.Wrap(fault.Denied, errors.New("S3_ENDPOINT is set, and there are no credentials for it"), "set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY")
		})
		if id, secret := a.Env("S3_ACCESS_KEY_ID"), a.Env("S3_SECRET_ACCESS_KEY"); id != "" && secret != "" {
			c.Credentials = credentials.NewStaticCredentialsProvider(id, secret, "")
		}
		return c
	}
	c.Endpoint, c.Credentials = a.Env("AWS_ENDPOINT_URL"), a.awsCredentials()
	if c.Region == "" {
		c.Region = a.region()
	}
	if c.Credentials == nil {
		c.Credentials = aws.NewCredentialsCache(lazyCredentials{})
	}
	return c
}

// awsCredentials are those of the environment; nil leaves them to the SDK's chain.
func (a *App) awsCredentials() aws.CredentialsProvider {
	id, secret := a.Env("AWS_ACCESS_KEY_ID"), a.Env("AWS_SECRET_ACCESS_KEY")
	if id == "" || secret == "" {
		return nil
	}
	return credentials.NewStaticCredentialsProvider(id, secret, a.Env("AWS_SESSION_TOKEN"))
}

// lazyCredentials ask the SDK's chain when they are first needed.
type lazyCredentials struct{}

func (lazyCredentials) Retrieve(ctx context.Context) (found aws.Credentials, err error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithLogger(logging.Nop{}))
	if err == nil {
		found, err = cfg.Credentials.Retrieve(ctx)
	}
	if err != nil && ctx.Err() == nil {
		// The cause is hidden: the answer of a metadata service is not that of the bucket.
		err = fault.Wrap(fault.Denied, fmt.Errorf("find AWS credentials: %v", err), //nolint:errorlint // see above
			"log in again (aws sso login), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return found, err
}

// Phase tells what a long command does, where somebody watches.
func (a *App) Phase(name string) {
	if a.Verbosity > 0 || !a.Terminal && slices.Contains([]string{"apply", "delete"}, name) {
		a.Notef("%s …\n", name)
	}
}

func atoi(s string) int {
	n := 0
	for _, r := range s {
		if r < '0' || r > '9' {
			return 0
		}
		n = n*10 + int(r-'0')
	}
	return n
}
