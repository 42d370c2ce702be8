package delivery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
)

// errUndeliverable is why a target can never be delivered to: an attempt that
// fails with it is the last one.
type errUndeliverable string

func (e errUndeliverable) Error() string { return string(e) }

// checkTarget refuses what a provider refuses before it dials.
func checkTarget(target string, private bool) error {
	if target == "" {
		return errUndeliverable("no webhook is registered")
	}
	u, err := url.Parse(target)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errUndeliverable("the registered URL is not one of http or https")
	case u.Scheme != "https" && !private:
		return errUndeliverable("the target is not https")
	}
	return nil
}

// dialer returns how connections are made. Public addresses are insisted on
// where the connection is made, after the name was resolved, so that no name
// can stand for a private address.
func dialer(private bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: dialTimeout}
	if private {
		return d.DialContext
	}
	d.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !public(at.Addr()) {
			return errUndeliverable(fmt.Sprintf("the target is not a public address: %s", address))
		}
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			return nil, errUndeliverable(fmt.Sprintf("the target does not resolve to an address: %s", dns.Name))
		}
		return conn, err
	}
}

// special are the ranges that netip's predicates leave out.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001:db8::/32"),
}

// public reports whether an address can be reached over the Internet.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
