package spec

import (
	"strings"
	"testing"
)

func TestARegionThatDoesNotExistIsNamedWithTheNearest(t *testing.T) {
	for region, want := range map[string]string{"us-eest-1": "did you mean us-east-1?", "nowhere": "SKIP_REGION_CHECK=1"} {
		if err := CheckRegion(region); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", region, err, want)
		}
	}
	for _, region := range []string{"", "us-east-1", "us-gov-west-1", "cn-north-1"} {
		if err := CheckRegion(region); err != nil {
			t.Error(err)
		}
	}
}
