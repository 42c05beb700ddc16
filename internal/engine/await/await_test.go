package await_test

import (
	"context"
	"errors"
	"testing"

	"kops.local/kops/internal/engine/await"
)

func TestResult(t *testing.T) {
	failed := errors.New("failed")
	if got, err := await.Result(t.Context(), func() (int, error) { return 1, failed }); got != 1 || !errors.Is(err, failed) {
		t.Errorf("%d, %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	got, err := await.Result(ctx, func() (int, error) {
		stop()
		<-release
		return 1, nil
	})
	if got != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v after the end of the context", got, err)
	}
}
