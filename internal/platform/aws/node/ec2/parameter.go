package ec2

import (
	"context"
	"errors"
	"fmt"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/aws/awsquery"
)

// Parameter reads and decrypts a parameter of Systems Manager. The error has the class fault.Denied
// if the role is not permitted to read it, and fault.NotYet if it does not exist (yet).
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
		err = fault.New(fault.NotYet, "the response has no value")
	case !errors.As(err, &said):
	case fault.Is(err, fault.Denied):
		err = fault.Wrap(fault.Denied, err, "allow ssm:GetParameter to the role of the group's machines: run kops update cluster --yes")
	case fault.Is(err, fault.Permanent):
		err = fault.Wrap(fault.NotYet, err, "run kops update cluster --yes to write it")
	}
	if err != nil {
		return "", fmt.Errorf("read the parameter %s: %w", name, err)
	}
	return answer.Parameter.Value, nil
}
