// Products of rows that lie in shared memory with k innermost, in stages of 64 bytes of each row.
#pragma once
#include "tile.h"

CONSTANT int convStages = 4, convRowBytes = 64, convPitch = 80;

// The products of one stage: rows of 64 bytes of both matrices, k innermost.
template <class K, int N> struct Accumulator {
  typedef Tiling<N> Tile;
  float sum[Tile::MT][Tile::NT][4] = {};

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / Tile::columns * Tile::MT * 16, column = warp % Tile::columns * Tile::NT * 8;
#pragma unroll
    for (int step = 0; step < 2; step++) {
      uint32_t a[Tile::MT][4];
#pragma unroll
      for (int m = 0; m < Tile::MT; m++) {
        loadMatrix4(a[m], left + (row + 16 * m + lane % 16) * convPitch + 16 * (2 * step + lane / 16));
        roundOperand(K(), a[m]);
      }
#pragma unroll
      for (int t = 0; t < Tile::NT; t += 2) {
        uint32_t b[4]; // of two tiles
        loadMatrix4(b, right + (column + 8 * t + lane / 16 * 8 + lane % 8) * convPitch + 16 * (2 * step + lane / 8 % 2));
#pragma unroll
        for (int m = 0; m < Tile::MT; m++) {
          multiply(K(), sum[m][t], a[m], b[0], b[1]);
          multiply(K(), sum[m][t + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  FN_MEMBER void put(float *to, const float *bias, int channels) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp / Tile::columns * Tile::MT * 16 + lane / 4, column = warp % Tile::columns * Tile::NT * 8 + lane % 4 * 2;
#pragma unroll
    for (int m = 0; m < Tile::MT; m++)
#pragma unroll
      for (int t = 0; t < Tile::NT; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int c = column + 8 * t + i % 2;
          to[(row + 16 * m + i / 2 * 8) * Tile::pitch + c] = sum[m][t][i] + (bias && c < channels ? bias[c] : 0);
        }
  }
};

template <int N> struct Accumulator<Fp32, N> {
  CONSTANT int columns = N / 16;
  float sum[8][columns] = {};

  FN_MEMBER void add(const unsigned char *left, const unsigned char *right) {
    const int row = threadIdx.x / 16, column = threadIdx.x % 16;
#pragma unroll
    for (int k = 0; k < convRowBytes; k += 16) {
      float b[columns][4];
#pragma unroll
      for (int j = 0; j < columns; j++) load(b[j], reinterpret_cast<const float *>(right + (column + 16 * j) * convPitch + k));
#pragma unroll
      for (int i = 0; i < 8; i++) {
        float a[4];
        load(a, reinterpret_cast<const float *>(left + (row + 16 * i) * convPitch + k));
#pragma unroll
        for (int j = 0; j < columns; j++)
#pragma unroll
          for (int e = 0; e < 4; e++) sum[i][j] += a[e] * b[j][e];
      }
    }
  }

  FN_MEMBER void put(float *to, const float *bias, int channels) const {
    const int row = threadIdx.x / 16, column = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int j = 0; j < columns; j++) {
        const int c = column + 16 * j;
        to[(row + 16 * i) * Tiling<N>::pitch + c] = sum[i][j] + (bias && c < channels ? bias[c] : 0);
      }
  }
};
