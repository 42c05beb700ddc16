// Package boot boots machines under attack: the boot script as it is in user data,
// and nodeup, download from servers with a fault, which is then removed. The diagnosis of
// kops doctor is compared.
//
// It contains only tests.
package boot
