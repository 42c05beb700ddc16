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

// versionOf finds the version of a launch template that a group makes instances of now.
func (p *play) versionOf(ctx context.Context, t *scalingtypes.LaunchTemplateSpecification) (*types.LaunchTemplateVersion, error) {
	out, err := p.clients.EC2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: t.LaunchTemplateId, Versions: []string{cmp.Or(aws.ToString(t.Version), "$Default")}})
	if err != nil || len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		return nil, err
	}
	return &out.LaunchTemplateVersions[0], nil
}

// remember notes of which version of its launch template an instance was made.
func (p *play) remember(id string, v *types.LaunchTemplateVersion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[id] = strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10)
}

// forget drops the state of an instance that is gone.
func (p *play) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.made, id)
}

// Parts of an answer that lists instances of Auto Scaling groups. One of an instance has no member in it.
var (
	instanceID      = regexp.MustCompile(`<InstanceId>(i-[0-9a-f]+)</InstanceId>`)
	templateVersion = regexp.MustCompile(`(?s)(<LaunchTemplate>.*?<Version>)[^<]*(</Version>.*?</LaunchTemplate>)`)
)

// member begins each item of a list.
const member = "<member>"

// asMade gives each instance in an answer the version of the launch template of which it
// was made: the emulator tells the default version of now of all.
func (p *play) asMade(answer string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := strings.Split(answer, member)
	for i, part := range parts {
		one, _, _ := strings.Cut(part, "</member>")
		id := instanceID.FindStringSubmatch(one)
		if id == nil || p.made[id[1]] == "" {
			continue
		}
		parts[i] = strings.Replace(part, one, templateVersion.ReplaceAllString(one, "${1}"+p.made[id[1]]+"${2}"), 1)
	}
	return strings.Join(parts, member)
}

// rewrite changes what the emulator answers to questions for instances of groups, and for routes.
func (p *play) rewrite(r *http.Response) error {
	change := p.asMade
	switch action, _ := r.Request.Context().Value(actionKey{}).(string); action {
	case "DescribeAutoScalingGroups", "DescribeAutoScalingInstances":
	case "DescribeRouteTables":
		change = p.seen().blackholes
	default:
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("read what the emulator says: %w", err)
	}
	text := change(string(body))
	r.Body = io.NopCloser(bytes.NewReader([]byte(text)))
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// actionKey is the key of a request's action in its context.
type actionKey struct{}
