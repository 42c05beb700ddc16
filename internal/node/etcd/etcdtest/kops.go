package etcdtest

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// KopsState is the file state on a disk of kOps' etcd-manager: its message EtcdState.
// It is defined here independently, so that mistakes in reading it are noticed.
type KopsState struct {
	New         bool
	Size        uint64
	Token       string
	Nodes       []KopsNode
	Version     string
	Quarantined bool
	// More are encoded fields that kOps' manager ignores.
	More []byte
}

// KopsNode is a member in a KopsState.
type KopsNode struct {
	Name                                 string
	PeerURLs, ClientURLs, QuarantineURLs []string
	TLS                                  bool
}

// Encode returns the content of the file.
func (s KopsState) Encode() []byte {
	var cluster []byte
	cluster = number(cluster, 1, s.Size)
	cluster = text(cluster, 5, s.Token)
	for _, n := range s.Nodes {
		node := text(nil, 1, n.Name)
		node = text(node, 2, n.PeerURLs...)
		node = text(node, 3, n.ClientURLs...)
		node = text(node, 4, n.QuarantineURLs...)
		if n.TLS {
			node = number(node, 5, 1)
		}
		cluster = protowire.AppendBytes(protowire.AppendTag(cluster, 7, protowire.BytesType), node)
	}
	var out []byte
	if s.New {
		out = number(out, 1, 1)
	}
	out = protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), cluster)
	out = text(out, 3, s.Version)
	if s.Quarantined {
		out = number(out, 4, 1)
	}
	return append(out, s.More...)
}

// DecodeKopsState reads the content of the file as kOps' manager does.
func DecodeKopsState(file []byte) (KopsState, error) {
	var s KopsState
	err := each(file, func(n protowire.Number, value uint64, content, raw []byte) error {
		switch n {
		case 1:
			s.New = value != 0
		case 2:
			return s.decodeCluster(content)
		case 3:
			s.Version = string(content)
		case 4:
			s.Quarantined = value != 0
		default:
			s.More = append(s.More, raw...)
		}
		return nil
	})
	return s, err
}

func (s *KopsState) decodeCluster(message []byte) error {
	return each(message, func(n protowire.Number, value uint64, content, _ []byte) error {
		switch n {
		case 1:
			s.Size = value
		case 5:
			s.Token = string(content)
		case 7:
			node := KopsNode{}
			err := node.decode(content)
			s.Nodes = append(s.Nodes, node)
			return err
		default:
			return errors.New("a cluster with an unknown field")
		}
		return nil
	})
}

func (n *KopsNode) decode(message []byte) error {
	return each(message, func(f protowire.Number, value uint64, content, _ []byte) error {
		switch f {
		case 1:
			n.Name = string(content)
		case 2:
			n.PeerURLs = append(n.PeerURLs, string(content))
		case 3:
			n.ClientURLs = append(n.ClientURLs, string(content))
		case 4:
			n.QuarantineURLs = append(n.QuarantineURLs, string(content))
		case 5:
			n.TLS = value != 0
		default:
			return errors.New("a node with an unknown field")
		}
		return nil
	})
}

func number(to []byte, n protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, n, protowire.VarintType), value)
}

func text(to []byte, n protowire.Number, values ...string) []byte {
	for _, v := range values {
		if v != "" {
			to = protowire.AppendString(protowire.AppendTag(to, n, protowire.BytesType), v)
		}
	}
	return to
}

func each(message []byte, do func(n protowire.Number, value uint64, content, raw []byte) error) error {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeField(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		raw := message[:size]
		_, _, head := protowire.ConsumeTag(raw)
		var value uint64
		var content []byte
		switch kind {
		case protowire.VarintType:
			value, _ = protowire.ConsumeVarint(raw[head:])
		case protowire.BytesType:
			content, _ = protowire.ConsumeBytes(raw[head:])
		}
		if err := do(n, value, content, raw); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}
