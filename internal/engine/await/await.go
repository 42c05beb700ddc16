// Package await waits for calls that cannot be stopped, such as a read of a terminal or a pipe, only
// until their context ends.
//
// It must not know what is called.
package await

import "context"

// Result returns what f returns, or the error of ctx if that ends first; f then goes on.
func Result[T any](ctx context.Context, f func() (T, error)) (T, error) {
	var got T
	var err error
	done := make(chan struct{})
	go func() {
		got, err = f()
		close(done)
	}()
	select {
	case <-done:
		return got, err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
