package ec2

import (
	"context"
	"errors"
	"fmt"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
)

// Parameter reads a parameter of Systems Manager, decrypted. The error is of class
// fault.Denied where the role may not read it, and fault.NotYet where it is not there (yet).
func (a API) Parameter(ctx context.Context, name string) (string, error) {
	in := struct {
		Name           string
		WithDecryption bool
	}{name, true}
	var answer struct{ Parameter struct{ Value string } }
	err := a.Client().CallJSON(ctx, "ssm", "AmazonSSM.GetParameter", in, &answer)
	var said *awsquery.Error
	switch {
	case err == nil && answer.Parameter.Value == "":
		err = fault.New(fault.NotYet, "the answer has no value")
	case !errors.As(err, &said):
	case fault.Is(err, fault.Denied):
		err = fault.Wrap(fault.Denied, err, "let the role of the group's machines do ssm:GetParameter; kops update cluster --yes does")
	case fault.Is(err, fault.Permanent):
		err = fault.Wrap(fault.NotYet, err, "kops update cluster --yes writes it")
	}
	if err != nil {
		return "", fmt.Errorf("read the parameter %s: %w", name, err)
	}
	return answer.Parameter.Value, nil
}
