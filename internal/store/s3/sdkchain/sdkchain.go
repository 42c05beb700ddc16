// Package sdkchain finds credentials as AWS's own programs do: in the environment, in
// the user's files, and last in the role of the machine.
//
// It must not know what they are for. It links the SDK's configuration, which
// programs that every machine downloads do without.
package sdkchain

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"kops.local/kops/internal/engine/fault"
)

// Credentials uses the SDK's chain when they are first needed.
type Credentials struct{}

// Retrieve implements aws.CredentialsProvider. Its errors have class fault.Denied.
func (Credentials) Retrieve(ctx context.Context) (found aws.Credentials, err error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err == nil {
		found, err = cfg.Credentials.Retrieve(ctx)
	}
	if err != nil && ctx.Err() == nil {
		// The cause's class is hidden, because an answer of the metadata service says nothing
		// about the bucket.
		err = fault.Wrap(fault.Denied, fmt.Errorf("find AWS credentials: %v", err), //nolint:errorlint // see above
			"log in again (aws sso login), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	return found, err
}
