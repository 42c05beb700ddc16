package awsapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"kops.local/kops/internal/engine/fault"
)

// Error is an error response from a service.
type Error struct {
	Code      string // as the service's reference lists it: "VpcLimitExceeded"
	Message   string
	RequestID string // AWS support asks for it; may be empty
	err       error
}

func (e *Error) Error() string {
	text := e.Code + ": " + e.Message
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// Unwrap returns the SDK's error.
func (e *Error) Unwrap() error { return e.err }

// Code returns a service's error code, or "" if err is not an error response from a service.
func Code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// classErrors adds the middleware that classifies the error of every request. It runs after the
// middleware that records the operation's name, and before all that send.
func classErrors(s *middleware.Stack) error {
	return s.Initialize.Add(middleware.InitializeMiddlewareFunc("ClassErrors",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleInitialize(ctx, in)
			if err != nil {
				err = classifyError(ctx, err, operation{
					service: awsmiddleware.GetServiceID(ctx), name: awsmiddleware.GetOperationName(ctx)})
			}
			return out, meta, err
		}), middleware.After)
}

// operation is an operation of a service.
type operation struct{ service, name string }

// action returns the operation's name in IAM policies, for example "ec2:CreateVpc".
func (o operation) action() string {
	prefix, ok := map[string]string{
		"Auto Scaling":              "autoscaling",
		"Elastic Load Balancing v2": "elasticloadbalancing",
		"EventBridge":               "events",
		"Route 53":                  "route53",
		"Service Quotas":            "servicequotas",
	}[o.service]
	if !ok {
		prefix = strings.ToLower(o.service)
	}
	return prefix + ":" + o.name
}

// isRead reports whether the operation changes nothing.
func (o operation) isRead() bool { return o.hasPrefix("Describe", "Get", "List") }

// isDelete reports whether the operation removes something.
func (o operation) isDelete() bool {
	return o.hasPrefix("Delete", "Remove", "Detach", "Disassociate", "Release", "Revoke", "Terminate", "Deregister", "Untag", "Cancel")
}

func (o operation) hasPrefix(prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(o.name, p) {
			return true
		}
	}
	return false
}

// classifyError adds the class to an error of the SDK.
func classifyError(ctx context.Context, err error, op operation) error {
	var already *fault.Error
	if ctx.Err() != nil || errors.As(err, &already) {
		return err
	}
	var response *awshttp.ResponseError
	status, id := 0, ""
	if errors.As(err, &response) {
		status, id = response.HTTPStatusCode(), response.RequestID
	}
	var answer smithy.APIError
	if errors.As(err, &answer) && answer.ErrorCode() != "" && answer.ErrorCode() != "UnknownError" {
		c, remedy := classify(op, answer.ErrorCode(), answer.ErrorMessage(), status)
		return fault.Wrap(c, &Error{Code: answer.ErrorCode(), Message: answer.ErrorMessage(), RequestID: id, err: err}, remedy)
	}
	var unsent *smithyhttp.RequestSendError
	var garbled *smithy.DeserializationError
	switch {
	case errors.As(err, &unsent):
		c, remedy := classifyTransport(unsent)
		return fault.Wrap(c, fmt.Errorf("reach AWS: %w", unsent.Err), remedy)
	case status >= http.StatusInternalServerError: // from a proxy or an overloaded server, whose page explains nothing
		text := fmt.Sprintf("%d %s", status, http.StatusText(status))
		return fault.Wrap(fault.Lost, &Error{Code: text, Message: "the answer to " + op.action() + " gives no reason", RequestID: id, err: err}, "")
	case errors.As(err, &garbled):
		return fault.Wrap(fault.Lost, err, "")
	}
	return fault.Wrap(fault.Permanent, err, "")
}

// classifyTransport returns the class and the remedy of a connection error. A request that was sent
// may have taken effect even if no response arrived.
func classifyTransport(err error) (fault.Class, string) {
	var name *net.DNSError
	if errors.As(err, &name) && name.IsNotFound {
		return fault.Permanent, "check the name of the region and the network"
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fault.Permanent, "check the proxy, or set AWS_CA_BUNDLE to its certificate authorities"
	}
	return fault.Lost, ""
}
