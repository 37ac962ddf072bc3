"""Reading assembly: resources, counts, waves, and which edits change a hash."""

from __future__ import annotations

import pytest

from gate.codegen.isa import IsaError, instructions, read_isa
from gate.model.occupancy import waves_per_simd

TEXT = """\
\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-gfx950"
\t.globl\tscale_0
\t.type\tscale_0,@function
scale_0:                                ; @scale_0
; %bb.0:
\ts_load_dwordx4 s[4:7], s[0:1], 0x0
\tv_lshlrev_b32_e32 v0, 4, v0           ; 16 bytes a lane
.LBB0_1:                                ; =>This Inner Loop Header
\tbuffer_load_dwordx4 v[2:5], v0, s[4:7], 0 offen
\ts_waitcnt vmcnt(0) lgkmcnt(0)
\tv_mfma_f32_16x16x32_bf16 v[6:9], v[2:5], v[2:5], v[6:9]
\tds_write_b128 v0, v[6:9]
\ts_waitcnt lgkmcnt(0)
\ts_barrier
\tscratch_store_dword off, v6, s32
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
.Lfunc_end0:
\t.size\tscale_0, .Lfunc_end0-scale_0
"""
METADATA = """\
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     4
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
    .group_segment_fixed_size: 16384
    .max_flat_workgroup_size: 256
    .name:           scale_0
    .private_segment_fixed_size: 32
    .sgpr_count:     14
    .sgpr_spill_count: 1
    .symbol:         scale_0.kd
    .vgpr_count:     130
    .vgpr_spill_count: 2
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa-unknown-gfx950
...

\t.end_amdgpu_metadata
"""


def test_resources_come_from_the_metadata() -> None:
    reading = read_isa(TEXT + METADATA)
    metrics = reading.metrics
    assert reading.kernel == "scale_0"
    assert (metrics.vgpr, metrics.agpr, metrics.sgpr) == (130, 4, 14)
    assert (metrics.vgpr_spills, metrics.sgpr_spills, metrics.spills) == (2, 1, 3)
    assert (metrics.scratch_bytes, metrics.lds_bytes, metrics.workgroup_size) == (32, 16384, 256)
    assert metrics.waves_per_simd == 3


def test_instructions_are_counted_by_group() -> None:
    metrics = read_isa(TEXT + METADATA).metrics
    assert metrics.instructions == 11
    assert metrics.mix == {
        "buffer_load_dwordx4": 1,
        "ds_write_b128": 1,
        "s_barrier": 1,
        "s_waitcnt": 2,
        "s_waitcnt vmcnt(0)": 1,
        "salu": 2,
        "scratch_store_dword": 1,
        "smem": 1,
        "v_mfma_f32_16x16x32_bf16": 1,
        "valu": 1,
    }


@pytest.mark.parametrize(
    ("old", "new", "same_text", "same_opcodes"),
    [
        ("16 bytes a lane", "a comment", True, True),
        (".LBB0_1", ".LBB7_42", True, True),
        ("scale_0", "scale_kernel_9", True, True),
        ("v[2:5]", "v[10:13]", False, True),
        ("s_barrier", "s_nop 0", False, False),
    ],
)
def test_what_changes_a_hash(old: str, new: str, same_text: bool, same_opcodes: bool) -> None:
    before, after = read_isa(TEXT + METADATA), read_isa((TEXT + METADATA).replace(old, new))
    assert (before.isa_sha == after.isa_sha) is same_text
    assert (before.opcode_sha == after.opcode_sha) is same_opcodes


def test_a_branch_to_another_label_is_another_text() -> None:
    two = "a:\ns_nop 0\nb:\ns_branch a\n"
    assert list(instructions(two)) != list(instructions(two.replace("s_branch a", "s_branch b")))


def test_several_kernels_give_the_worst_of_each_resource_and_the_sum_of_the_rest() -> None:
    item = METADATA[METADATA.index("  - .agpr") : METADATA.index("amdhsa.target")]
    second = item.replace("scale_0", "other_0").replace("130", "40").replace("16384", "65536")
    reading = read_isa(TEXT + METADATA.replace(item, item + second))
    assert reading.kernel == "scale_0+other_0"
    assert (reading.metrics.vgpr, reading.metrics.lds_bytes, reading.metrics.spills) == (130, 65536, 6)
    assert reading.metrics.waves_per_simd == 2


@pytest.mark.parametrize(
    ("vgpr", "lds_bytes", "lanes", "waves"),
    [
        (1, 0, 256, 8),
        (64, 0, 256, 8),
        (65, 0, 256, 7),
        (128, 0, 256, 4),
        (136, 0, 256, 3),
        (168, 0, 256, 3),
        (172, 0, 256, 2),
        (512, 0, 256, 1),
        (32, 163840, 256, 1),
        (32, 81920, 256, 2),
        (32, 163840, 1024, 4),
        (32, 32768, 256, 4),
        (32, 1, 64, 8),
    ],
)
def test_waves_that_fit(vgpr: int, lds_bytes: int, lanes: int, waves: int) -> None:
    assert waves_per_simd(vgpr=vgpr, lds_bytes=lds_bytes, workgroup_size=lanes) == waves


def test_gfx942_has_less_lds() -> None:
    facts = {"vgpr": 32, "lds_bytes": 32768, "workgroup_size": 256}
    assert [waves_per_simd(**facts, arch=arch) for arch in ("gfx942", "gfx950")] == [2, 4]


def test_a_text_without_metadata_or_with_half_of_it_is_refused() -> None:
    with pytest.raises(IsaError, match="no kernel metadata"):
        read_isa(TEXT)
    with pytest.raises(IsaError, match=r"no \.sgpr_count"):
        read_isa(TEXT + METADATA.replace(".sgpr_count:     14", ".other:     14"))
