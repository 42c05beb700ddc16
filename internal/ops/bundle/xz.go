package bundle

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// xzChunk is the maximum size of an uncompressed LZMA2 chunk.
const xzChunk = 1 << 16

// writeXZ writes size bytes of a file in the .xz format without compressing them: one block of
// uncompressed LZMA2 chunks. Machines expect this format, and on a local network compression would
// only cost time. The format: https://tukaani.org/xz/xz-file-format.txt.
func writeXZ(w io.Writer, size int64, fill func(io.Writer) error) error {
	const check = 1 // CRC32
	flags := []byte{0, check}
	out := &xzBlock{w: w, sum: crc32.NewIEEE()}
	out.raw([]byte("\xfd7zXZ\x00"), flags, sum32(flags))

	// a 12-byte header: its size in words minus one, one filter, LZMA2 (0x21) with a dictionary of
	// 64 KiB
	header := []byte{2, 0, 0x21, 1, 8, 0, 0, 0}
	start := out.written
	out.raw(header, sum32(header))
	if err := fill(out); err != nil {
		return err
	}
	out.flush()
	out.raw([]byte{0}) // no more chunks
	unpadded := out.written - start + 4
	out.raw(make([]byte, (4-(out.written-start)%4)%4), binary.LittleEndian.AppendUint32(nil, out.sum.Sum32()))

	index := []byte{0}
	for _, n := range []int64{1, unpadded, size} {
		index = binary.AppendUvarint(index, uint64(n))
	}
	index = append(index, make([]byte, (4-len(index)%4)%4)...)
	out.raw(index, sum32(index))

	footer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4)), flags...)
	out.raw(sum32(footer), footer, []byte("YZ"))
	return out.err
}

func sum32(b []byte) []byte { return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)) }

// xzBlock writes its input as chunks. The first error is kept.
type xzBlock struct {
	w   io.Writer
	sum interface {
		io.Writer
		Sum32() uint32
	}
	chunk   bytes.Buffer
	started bool
	written int64
	err     error
}

// Write implements io.Writer.
func (b *xzBlock) Write(p []byte) (int, error) {
	n := len(p)
	b.sum.Write(p) //nolint:errcheck // a hash does not fail
	for len(p) > 0 && b.err == nil {
		part := p[:min(len(p), xzChunk-b.chunk.Len())]
		b.chunk.Write(part)
		p = p[len(part):]
		if b.chunk.Len() == xzChunk {
			b.flush()
		}
	}
	return n, b.err
}

// flush writes the chunk: control byte 1 resets the dictionary, 2 keeps it, and the size is stored
// minus one.
func (b *xzBlock) flush() {
	if b.chunk.Len() == 0 {
		return
	}
	control := byte(2)
	if !b.started {
		control, b.started = 1, true
	}
	b.raw(binary.BigEndian.AppendUint16([]byte{control}, uint16(b.chunk.Len()-1)), b.chunk.Bytes())
	b.chunk.Reset()
}

// raw writes bytes that are not part of the content.
func (b *xzBlock) raw(parts ...[]byte) {
	for _, p := range parts {
		if b.err == nil {
			_, b.err = b.w.Write(p)
			b.written += int64(len(p))
		}
	}
}
