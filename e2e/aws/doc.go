// Package aws holds no code: its tests run all of kops against an
// emulator of AWS, behind a proxy that delays, counts and breaks requests.
package aws
