package onmachine

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestKeysAreAskedOfThePlatformThatHasThem(t *testing.T) {
	asked := ""
	cloud := Platform{Name: "cloud", Keys: func(_ context.Context, _ World, place string) (Credentials, error) {
		if asked = place; place == "/gone" {
			return Credentials{}, errors.New("it is gone")
		}
		return Credentials{ID: "id", Secret: "secret"}, nil
	}}
	all := []Platform{{Name: "other"}, cloud}
	at := func(value string) World {
		return World{Env: func(name string) string {
			return map[string]string{"S3_KEYS": value, "S3_ENDPOINT": "https://s3"}[name]
		}}
	}
	if storeKeys(all, at("")) != nil {
		t.Error("there are keys where nobody says so")
	}
	c, err := storeKeys(all, at("cloud:/kops/c:d")).Retrieve(t.Context())
	if err != nil || asked != "/kops/c:d" || c.AccessKeyID != "id" || c.SecretAccessKey != "secret" || !c.CanExpire {
		t.Errorf("%q was asked for, %+v, %v", asked, c.AccessKeyID, err)
	}
	for value, want := range map[string]string{"cloud:/gone": "find the keys of https://s3: it is gone", "other:/a": "this program cannot find keys of other",
		"strange:/a": "this program cannot find keys of strange", "word": `S3_KEYS is "word", and not PLATFORM:NAME`} {
		if _, err := storeKeys(all, at(value)).Retrieve(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
