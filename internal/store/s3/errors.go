package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store"
	"kops.local/kops/internal/store/web"
)

// listingError returns the error for a listing whose next page cannot be requested.
func (b *bucket) listingError(prefix string) error {
	return fault.New(fault.Permanent, "list %s: the server did not list all objects and gave no continuation token",
		store.URL(b, strings.TrimPrefix(prefix, b.prefix)))
}

// code returns the server's error code, or "".
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// status returns the HTTP status of an error, or 0.
func status(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.HTTPStatusCode()
	}
	return 0
}

// isConditionFailure reports whether a conditional write was rejected because its condition does
// not hold: another version (412), a concurrent write (409), or no object (404).
func isConditionFailure(err error) bool {
	switch code(err) {
	case "PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey":
		return true
	}
	return code(err) != "NoSuchBucket" && status(err) == http.StatusPreconditionFailed
}

// wrapError adds the failed operation to an error, and classifies it.
func (b *bucket) wrapError(ctx context.Context, doing, permission, key string, err error) error {
	if ctx.Err() != nil { // a timeout of the connection looks like one of the context
		return fmt.Errorf("%s %s: %w", doing, store.URL(b, key), err)
	}
	return b.classify(doing, permission, key, code(err), status(err), withServerMessage(err))
}

// serverError is a server's error without the text that the SDK adds.
type serverError struct {
	text string
	err  error
}

func (a *serverError) Error() string { return a.text }
func (a *serverError) Unwrap() error { return a.err }

// withServerMessage returns an error with the server's own message, if there was one, and the
// request ID by which the server's operators can find the request.
func withServerMessage(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() == "" || api.ErrorMessage() == "" {
		return err
	}
	a := &serverError{text: api.ErrorCode() + ": " + api.ErrorMessage(), err: err}
	var response interface{ ServiceRequestID() string }
	if errors.As(err, &response) && response.ServiceRequestID() != "" {
		a.text += " (request " + response.ServiceRequestID() + ")"
	}
	return a
}

// createCommand returns the command that creates the bucket.
func (b *bucket) createCommand() string {
	command := "aws s3 mb s3://" + b.name
	if !isAmazon(b.cfg.Endpoint) {
		command += " --endpoint-url " + b.cfg.Endpoint
	}
	return command
}

// classify gives an error its class and remedy. The codes are from the page
// "Error responses" of the Amazon S3 API reference.
func (b *bucket) classify(doing, permission, key, code string, status int, err error) error {
	what := doing + " " + store.URL(b, key)
	if code == "" && status < http.StatusBadRequest {
		if err := classifyUnanswered(what, err); err != nil {
			return err
		}
	}
	err = fmt.Errorf("%s: %w", what, err)
	switch code {
	case "NoSuchKey", "NotFound":
		return fault.Wrap(fault.Gone, err, "")
	case "NoSuchBucket":
		return fault.Wrap(fault.Permanent, &store.MissingError{Err: err},
			fmt.Sprintf("create the bucket (%s), or correct its name", b.createCommand()))
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
		return fault.Wrap(fault.Denied, err, "check or renew the credentials for the state store")
	case "RequestTimeTooSkewed":
		return fault.Wrap(fault.Denied, err, "set this machine's clock")
	case "AuthorizationHeaderMalformed":
		return fault.Wrap(fault.Permanent, err, "set S3_REGION to the region of the bucket")
	case "AccessControlListNotSupported":
		return fault.Wrap(fault.Permanent, err,
			fmt.Sprintf("enable ACLs on the bucket %s, or allow everyone s3:GetObject on %s in the bucket policy", b.name, store.URL(b, key)))
	case "NotImplemented":
		return fault.Wrap(fault.Permanent, err,
			"the server does not support conditional writes, so two commands could overwrite each other's changes; use another one")
	case "PreconditionFailed", "ConditionalRequestConflict", "OperationAborted":
		return fault.Wrap(fault.Conflict, err, "")
	case "TooManyBuckets", "QuotaExceeded", "EntityTooLarge":
		return fault.Wrap(fault.Quota, err, "ask for a higher limit, or free some space")
	case "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "ServiceUnavailable",
		"InternalError", "RequestTimeout":
		return fault.Wrap(fault.Throttled, err, "")
	}
	return b.classifyByStatus(permission, key, status, err)
}

// classifyByStatus classifies errors without a known code by their HTTP status.
func (b *bucket) classifyByStatus(permission, key string, status int, err error) error {
	switch {
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return fault.Wrap(fault.Denied, err, fmt.Sprintf("allow %s on %s to this identity", permission, b.arn(permission, key)))
	case status == http.StatusNotFound:
		return fault.Wrap(fault.Gone, err, "")
	case status == http.StatusConflict || status == http.StatusPreconditionFailed:
		return fault.Wrap(fault.Conflict, err, "")
	case status == http.StatusTooManyRequests || status >= 500:
		return fault.Wrap(fault.Throttled, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// classifyUnanswered classifies failures without a valid answer, and returns nil for other
// errors. A write that was sent may have taken effect.
func classifyUnanswered(what string, err error) error {
	var unsent *smithyhttp.RequestSendError
	var garbled *smithy.DeserializationError
	var own *fault.Error
	broken := errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error)) || errors.As(err, &garbled)
	switch {
	case errors.As(err, &unsent):
		err = unsent.Err // the text before it counts the attempts
	case errors.As(err, &own): // from a source of credentials
		return fault.Wrap(own.Class, fmt.Errorf("%s: %w", what, own), "")
	case !broken:
		return nil
	}
	return web.ConnectionError(what, err)
}

// isRetryable reports false for errors after which another connection would fail for the
// same reason, and leaves the others to the SDK's own rules.
func isRetryable(err error) aws.Ternary {
	if web.IsTLSError(err) {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

// arn returns the resource for which a permission is needed.
func (b *bucket) arn(permission, key string) string {
	if strings.HasPrefix(permission, "s3:ListBucket") || strings.HasPrefix(permission, "s3:GetBucket") {
		return "arn:aws:s3:::" + b.name
	}
	return "arn:aws:s3:::" + b.name + "/" + b.key(key)
}

// isCollision reports whether a server rejected a request because of a concurrent one.
func isCollision(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusConflict
}
