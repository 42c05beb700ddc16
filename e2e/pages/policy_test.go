package pages

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// awsPage holds the policy for the user of kops.
const awsPage = "docs/aws.md"

// statement is a part of a policy. AWS refuses a policy of any other form.
type statement struct {
	Sid, Effect string
	Action      words
	Resource    string
	Condition   map[string]map[string]words
}

// words is one word, or a list.
type words []string

func (w *words) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(w))
}

var (
	jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")
	// endpoint matches the row of S3_ENDPOINT, with the other variables with which the test reaches
	// its store.
	endpoint = regexp.MustCompile("(?m)^\\| `S3_ENDPOINT`.*$")
	granting = regexp.MustCompile("`([a-z0-9]+:[A-Za-z]+)`")
)

// grantedActions reads the actions that the page grants.
func grantedActions(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, awsPage))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Version   string
		Statement []statement
	}
	d := json.NewDecoder(strings.NewReader(jsonBlock.FindStringSubmatch(string(data))[1]))
	d.DisallowUnknownFields()
	if err := d.Decode(&policy); err != nil {
		t.Fatalf("the policy of %s: %v", awsPage, err)
	}
	var out []string
	for _, s := range policy.Statement {
		out = append(out, s.Action...)
	}
	for _, m := range granting.FindAllStringSubmatch(endpoint.FindString(string(data)), -1) {
		out = append(out, m[1])
	}
	return out
}

// actionOf returns the action that a policy grants for a call, where their names differ.
func actionOf(call string) string {
	if action, ok := map[string]string{
		"s3.HeadObject": "s3:GetObject", "s3.HeadBucket": "s3:ListBucket", "s3.ListObjects": "s3:ListBucket", "s3.ListObjectsV2": "s3:ListBucket",
		"s3.ListObjectVersions": "s3:ListBucketVersions", "s3.DeleteObjects": "s3:DeleteObject", "s3.GetBucketPolicystatus": "s3:GetBucketPolicyStatus",
	}[call]; ok {
		return action
	}
	return strings.Replace(call, ".", ":", 1)
}

// checkPolicy checks that the policy grants every call that kops made, and that there were enough calls.
func checkPolicy(t *testing.T, calls map[string]int, least int) {
	t.Helper()
	actions := grantedActions(t)
	for call := range calls {
		action := actionOf(call)
		if !slices.ContainsFunc(actions, func(pattern string) bool { ok, _ := path.Match(pattern, action); return ok }) {
			t.Errorf("kops calls %s, and the policy of %s does not grant %s", call, awsPage, action)
		}
	}
	if len(calls) < least {
		t.Errorf("only %d different calls were made: %v", len(calls), calls)
	}
}

// TestThePolicyIsOne parses the policy even if no emulator is installed.
func TestThePolicyIsOne(t *testing.T) {
	if n := len(grantedActions(t)); n < 50 {
		t.Errorf("the policy grants %d actions", n)
	}
}
