package rehearsal

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	scalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// templateVersion returns the launch template version that a group creates instances from now.
func (p *play) templateVersion(ctx context.Context, t *scalingtypes.LaunchTemplateSpecification) (*types.LaunchTemplateVersion, error) {
	out, err := p.clients.EC2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: t.LaunchTemplateId, Versions: []string{cmp.Or(aws.ToString(t.Version), "$Default")}})
	if err != nil || len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		return nil, err
	}
	return &out.LaunchTemplateVersions[0], nil
}

// rememberVersion stores the version of the launch template that an instance was created from.
func (p *play) rememberVersion(id string, v *types.LaunchTemplateVersion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.versions[id] = strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10)
}

// forgetInstance deletes the state of an instance that no longer exists.
func (p *play) forgetInstance(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.versions, id)
}

// Patterns for responses that list instances of Auto Scaling groups. An instance's item contains no
// nested members.
var (
	instanceID      = regexp.MustCompile(`<InstanceId>(i-[0-9a-f]+)</InstanceId>`)
	templateVersion = regexp.MustCompile(`(?s)(<LaunchTemplate>.*?<Version>)[^<]*(</Version>.*?</LaunchTemplate>)`)
)

// member is the start of each item in a list.
const member = "<member>"

// setVersions sets the version of the launch template that each instance in a response was created from:
// the emulator returns the current default version for all.
func (p *play) setVersions(answer string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := strings.Split(answer, member)
	for i, part := range parts {
		one, _, _ := strings.Cut(part, "</member>")
		id := instanceID.FindStringSubmatch(one)
		if id == nil || p.versions[id[1]] == "" {
			continue
		}
		parts[i] = strings.Replace(part, one, templateVersion.ReplaceAllString(one, "${1}"+p.versions[id[1]]+"${2}"), 1)
	}
	return strings.Join(parts, member)
}

// rewriteResponse changes the emulator's responses that list instances of groups, and routes.
func (p *play) rewriteResponse(r *http.Response) error {
	change := p.setVersions
	switch action, _ := r.Request.Context().Value(actionKey{}).(string); action {
	case "DescribeAutoScalingGroups", "DescribeAutoScalingInstances":
	case "DescribeRouteTables":
		change = p.lastSnapshot().markBlackholes
	default:
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("read the emulator's response: %w", err)
	}
	text := change(string(body))
	r.Body = io.NopCloser(bytes.NewReader([]byte(text)))
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// actionKey is the context key of a request's action.
type actionKey struct{}
