// Package boot starts machines under attack: the boot script as it stands in user data,
// and nodeup, fetch from servers of which one is wrong, and then right again. What kops
// doctor says of the machine meanwhile is compared.
//
// It holds tests only.
package boot
